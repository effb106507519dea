#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "hmann/progress.h"
#include "index/format/reader.h"

namespace hmann {

/// The k nearest of an index's own vectors to each query, by comparing it with all of
/// them, as labels; ties by internal id. Wants no base file, and with the engine's own
/// kernels gives the very distances that a search reports. `queries`: n x dim components
/// of QueryType(the index's dtype), row-major. k <= n of the index. `threads`: 0: the
/// usable cores. Errors: those of EncodeRow.
absl::StatusOr<GroundTruth> ExactSearch(const IndexFile& file, std::span<const std::byte> queries,
                                        std::uint32_t k, int threads, Progress& progress);

}  // namespace hmann
