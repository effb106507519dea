#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "hmann/progress.h"
#include "index/format/reader.h"

namespace hmann {

/// Like ExactSearch, but searches the graph with a high ef_scale. A sample of the queries
/// is compared with all vectors; the ef_scale suffices if fewer than one neighbor in two
/// thousand of these is missed. If none suffices, all queries are compared. Errors: those
/// of ExactSearch and Index::Open.
absl::StatusOr<GroundTruth> WideSearch(const std::string& index, const IndexFile& file,
                                       std::span<const std::byte> queries, std::uint32_t k,
                                       Progress& progress);

}  // namespace hmann
