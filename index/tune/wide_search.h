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

/// As ExactSearch, by searching the graph with so much effort that of a sample of the
/// queries, which are compared with all vectors, fewer than one neighbour in two thousand
/// is missed. Where no effort does that, all queries are compared. Errors: those of
/// ExactSearch and Index::Open.
absl::StatusOr<GroundTruth> WideSearch(const std::string& index, const IndexFile& file,
                                       std::span<const std::byte> queries, std::uint32_t k,
                                       Progress& progress);

}  // namespace hmann
