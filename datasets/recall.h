#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "datasets/ground_truth.h"

namespace hmann {

/// Recall@k of one query: the share of the first k answers that are among the first k of
/// the truth, of as many as the truth has where it has fewer: 1 if it has none.
///
/// Where the truth has distances, a tie at rank k counts as found, in the place of
/// another tie only: a nearer neighbor that is missing stays missing. A tie is an answer
/// whose id stands further down the truth at the distance of rank k. It is also an answer
/// whose distance equals that distance within 4e-7 of its size (a few roundings of f32;
/// exact for whole numbers below 2^21). If the truth ends within a tie at rank k, the
/// size is 1 under cosine and the largest in the row under inner product, whose
/// differences are small and still round like this. An answer is then also a tie if it is
/// no farther than one that the truth lists in the tie: some searches round vectors.
///
/// `ids`: the answers, nearest first; a repeated id counts once. Fewer than k leave the
/// rest unfound. `distances`: of the answers, or empty. Requires 0 < k <= truth.k and
/// query < truth.n.
double RecallAtK(const GroundTruth& truth, std::uint64_t query, std::uint32_t k,
                 std::span<const std::uint64_t> ids, std::span<const float> distances);

/// The part that one of `shards` shards has in the recall@k of their merged answers, as a
/// recall. Rows are spread over shards at random, so j of the k nearest lie in a shard
/// with the chance of a binomial distribution, and are then the j nearest of the shard:
/// the mean over j, weighted with chance and j, of RecallAtK for j. `truth`: the nearest
/// of the shard. `shards`: 1 gives RecallAtK.
double RecallOfMerged(const GroundTruth& truth, std::uint64_t query, std::uint32_t k,
                      std::uint32_t shards, std::span<const std::uint64_t> ids,
                      std::span<const float> distances);

/// Errors: INVALID_ARGUMENT if the truth holds fewer than `queries` queries or fewer than
/// k neighbors, or if k is 0.
absl::Status CheckTruthCovers(const GroundTruth& truth, std::uint64_t queries, std::uint32_t k);

struct RecallSummary {
  double mean = 0;
  /// The 5th percentile over queries: the smallest value that at least 5 % of them do not
  /// exceed.
  double p05 = 0;
};
/// Requires at least one value.
RecallSummary SummarizeRecall(std::vector<double> per_query);

}  // namespace hmann
