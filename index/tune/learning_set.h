#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "hmann/answer.h"
#include "hmann/distance.h"
#include "hmann/progress.h"
#include "index/construct/graph/duplicates.h"
#include "index/format/reader.h"

namespace hmann {

/// Queries with known exact neighbors, in random order.
struct LearningSet {
  std::vector<std::byte> rows;  ///< n x dim components of QueryType(the index's dtype)
  std::size_t vector_bytes = 0;
  GroundTruth truth;
  std::string origin;  ///< "queries.u8bin", "left out in turn"
  /// For vectors of the index: the id of each, for SearchLimits::excluded; otherwise
  /// empty.
  std::vector<std::uint32_t> left_out;
  GroundTruth truth_with_itself{};  ///< then: k + 1 neighbors, one of them the vector itself
  /// The index is one of these; recalls are those of their merged answers.
  std::uint32_t of_shards = 1;
  /// If the neighbors in all shards are known: how many of the k nearest of query i this
  /// shard has. A query of which it has more is more often in the set.
  std::vector<std::uint32_t> in_shard{};

  std::uint64_t n() const { return truth.n; }
  const std::byte* Row(std::uint64_t i) const { return rows.data() + i * vector_bytes; }
  SearchLimits Limits(std::uint64_t i) const;  ///< the limits for query i
  /// Recall@k of the answer to query i: of the neighbors in the shard (in_shard), or
  /// RecallOfMerged.
  double RecallOf(std::uint64_t i, std::uint32_t k, const Answer& answer) const;
  /// The same vectors, not left out, to be searched for with k + 1.
  LearningSet LeftIn() const;
};

struct LearningOptions {
  std::string index;          ///< index file
  std::string queries{};      ///< vector file; empty: vectors of the index, left out in turn
  std::string groundtruth{};  ///< of `queries` in all shards; empty: computed
  std::uint32_t of_shards = 1;
  /// Start within the random order of the file's queries; consecutive sets in it share
  /// none. Left-out vectors are drawn one by one, so few of them are shared.
  std::uint64_t first = 0;
  std::uint64_t most = 2000;
  std::uint32_t k = 10;
  std::uint64_t seed = 1;
};

/// Draws vectors of an index that stand for queries: of those without copies, as long as
/// there are enough. A vector whose copies are in the index is found too easily.
class Draw {
 public:
  /// For `most` vectors. `file` must outlive it. Errors: those of ChooseKernels.
  static absl::StatusOr<Draw> Of(const IndexFile& file, std::uint64_t most);

  /// The vector at place `i` of a sequence, from id `first` on.
  NodeId Next(std::uint64_t seed, std::uint64_t i, NodeId first);
  /// Copies hang below the first of them in a tree of links (DuplicateGroups). Without a
  /// node of it no search finds those below, but it would if the node had never been.
  /// Returns a copy that has none below; the node itself if it has no copies, or if their
  /// links are no tree (of an imported graph).
  NodeId LastCopy(NodeId drawn);

 private:
  Draw(const IndexFile& file, const Kernels& kernels, std::uint64_t spare)
      : file_(file), kernels_(kernels), spare_(spare) {}

  /// Reads the links of a node. Returns a copy that it leads to.
  std::optional<NodeId> CopyNextTo(NodeId node, NodeId but);

  const IndexFile& file_;
  const Kernels kernels_;
  std::uint64_t spare_;  ///< vectors that may still be drawn in place of others
  std::vector<NodeId> links_;
};

/// Makes a learning set. Without queries it uses vectors of the index itself and searches
/// for each as if it were not there. Such queries have exactly the distribution of the
/// data. (Moved vectors would be too easy where neighbors are nearly equally far: a moved
/// vector stays by far the nearest to its new place.) They exclude the layers above L1,
/// on which a search may have to begin, and vectors that have copies (Draw). None is left
/// out if k is the number of vectors.
///
/// Neighbors that no file provides are computed by comparing with all vectors. For many
/// queries in many vectors, a search does it that is wide enough to miss fewer than one
/// in two thousand (index/tune/wide_search.h).
///
/// Errors: INVALID_ARGUMENT (no queries, another dimension or type than the index's, a
/// ground truth of fewer queries or neighbors), those of the files.
absl::StatusOr<LearningSet> MakeLearningSet(const LearningOptions& options, Progress& progress);

}  // namespace hmann
