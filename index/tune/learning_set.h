#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "hmann/hmann.h"
#include "hmann/progress.h"

namespace hmann {

/// Where learning queries come from that are vectors of the index.
inline constexpr char kLeftOutInTurn[] = "left out in turn";

/// Queries whose exact neighbours are known, in an order drawn at random.
struct LearningSet {
  std::vector<std::byte> rows;  ///< n x dim components of QueryType(the index's dtype)
  std::size_t vector_bytes = 0;
  GroundTruth truth;
  std::string origin;  ///< "queries.u8bin", "left out in turn"
  /// Of vectors of the index: the id of each, for SearchLimits::excluded; else empty.
  std::vector<std::uint32_t> left_out;
  GroundTruth truth_with_itself{};  ///< then: k + 1 neighbours, of which one is the vector

  std::uint64_t n() const { return truth.n; }
  const std::byte* Row(std::uint64_t i) const { return rows.data() + i * vector_bytes; }
  SearchLimits Limits(std::uint64_t i) const;  ///< that query i is to be searched with
  /// Recall@k of what was found for query i.
  double RecallOf(std::uint64_t i, std::uint32_t k, const Answer& answer) const;
  /// The same vectors left in, to be searched for with k + 1.
  LearningSet LeftIn() const;
};

struct LearningOptions {
  std::string index;          ///< index file
  std::string queries{};      ///< vector file; empty: vectors of the index, left out in turn
  std::string groundtruth{};  ///< of `queries`; empty: found (MakeLearningSet)
  /// Of the random order of the file's queries: sets that follow each other in it share
  /// none. Vectors left out are drawn one by one: few.
  std::uint64_t first = 0;
  std::uint64_t most = 2000;
  std::uint32_t k = 10;
  std::uint64_t seed = 1;
};

/// A learning set. Without queries they are vectors of the index itself, each to be
/// searched as if it were not there: queries of the very distribution of the data,
/// whatever it is. (Vectors that were moved are too easy where neighbours are nearly
/// equally far: there such a vector stays by far the nearest to where it went.) None of
/// the layers above L1, on which a search may have to begin. Neighbours that no file
/// names are found by comparing with all vectors, of many queries in many vectors by a
/// search so wide that it misses fewer than one in two thousand
/// (index/tune/wide_search.h). Errors: INVALID_ARGUMENT (no queries, another dimension or
/// type than the index's, a ground truth of fewer queries or neighbours, no neighbour
/// beside the one left out), those of the files.
absl::StatusOr<LearningSet> MakeLearningSet(const LearningOptions& options, Progress& progress);

}  // namespace hmann
