#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "hmann/progress.h"

namespace hmann {

struct ExactOptions {
  Metric metric = Metric::kL2;
  std::uint32_t k = 100;
  std::uint32_t slack = 32;  ///< candidates beyond k that are remeasured
  int threads = 0;           ///< 0: UsableCores()
  /// Bytes of base vectors (as f32) in memory at once, and the same again of queries.
  std::uint64_t block_bytes = 64 << 20;
  /// Not owned; CANCELLED soon after it becomes true.
  const std::atomic<bool>* cancelled = nullptr;
};

struct ExactReport {
  GroundTruth truth;
  /// Queries that were compared with the whole base, because their candidates were not
  /// proven complete.
  std::uint64_t scanned_queries = 0;
};

/// Finds the k nearest base vectors of every query, exactly, ties to the smaller row: l2,
/// ip or cosine.
///
/// Faiss searches each block of the base in f32 and returns k + slack candidates. They
/// are measured again in 64-bit integers (u8, i8) or doubles (f32), and the best k are
/// kept. A vector that Faiss left out cannot be nearer than Faiss's last candidate less
/// the bound of its rounding errors. For a sum of dim products that bound is (dim + 8)
/// 2^-24 (|q| + |b|)^2 (Higham 2002, section 3.1). If that does not prove the k complete,
/// as among many duplicates, the query is compared with every base vector in full
/// precision. The base is streamed: memory is the two blocks and the answers, whatever
/// the file's size.
///
/// Errors: INVALID_ARGUMENT (dtypes or dims differ, k 0 or above n, NaN or Inf, a zero
/// vector under cosine), RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<ExactReport> ExactNeighbors(const VectorFile& base, const VectorFile& queries,
                                           const ExactOptions& options, Progress& progress);

}  // namespace hmann
