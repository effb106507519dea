#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "hmann/progress.h"

namespace hmann {

struct ExactOptions {
  Metric metric = Metric::kL2;
  std::uint32_t k = 100;
  int threads = 0;  ///< 0: UsableCores()
  /// Bytes of base vectors (as f32) in memory at once, and the same again of queries.
  std::uint64_t block_bytes = 64 << 20;
  /// If given: the only rows that may be neighbors of a query. Called from all threads.
  std::function<absl::StatusOr<std::vector<std::uint64_t>>(std::uint64_t query)> among = {};
  /// Not owned; CANCELLED soon after it becomes true.
  const std::atomic<bool>* cancelled = nullptr;
};

/// Finds the k nearest base vectors of every query, exactly, ties to the smaller row: l2,
/// ip or cosine. If fewer than k may be neighbors, kNoNeighbor follows them, at an
/// infinite distance.
///
/// The engine's kernels compare each query with every vector in f32 (u8, i8 under L2 and
/// inner product: in whole numbers). A vector that they find no farther than the k-th,
/// less the bound of their rounding errors, is measured again in 64-bit integers (u8, i8)
/// or doubles (f32, f16). Under L2 and cosine the bound is a share of the distance
/// itself, wherever the vectors lie. The base is streamed: memory is the two blocks and
/// the answers, whatever the file's size. With `among`, only the rows that it names are
/// measured.
///
/// Errors: INVALID_ARGUMENT (dtypes or dims differ, k 0 or above n, NaN or Inf,
/// CheckNorm), RESOURCE_EXHAUSTED, CANCELLED; those of `among`, naming the query.
absl::StatusOr<GroundTruth> ExactNeighbors(const VectorFile& base, const VectorFile& queries,
                                           const ExactOptions& options, Progress& progress);

}  // namespace hmann
