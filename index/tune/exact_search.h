#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "hmann/progress.h"
#include "index/format/reader.h"

namespace hmann {

/// Finds the k nearest of an index's own vectors to each query by comparing the query
/// with all of them, as labels; ties go to the lower internal id. It needs no base file.
/// It uses the engine's own kernels, so the distances are exactly those that a search
/// reports. `queries`: n x dim components of QueryType(the index's dtype), row-major. k
/// <= n of the index. `threads`: 0: the usable cores. Errors: those of EncodeRow.
absl::StatusOr<GroundTruth> ExactSearch(const IndexFile& file, std::span<const std::byte> queries,
                                        std::uint32_t k, int threads, Progress& progress);

}  // namespace hmann
