#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "index/search/driver.h"

namespace hmann {

/// Vectors by their labels: of dim components of the index's dtype each, in the order of
/// `labels`, to `vectors`. All of them are looked for side by side, so that their reads
/// of slow memory overlap. Errors: see Searcher::Get.
absl::Status GetVectors(const PlacedIndex& index, Driver& driver,
                        std::span<const std::uint64_t> labels, std::byte* vectors,
                        Counters* counters, const SearchLimits& limits);

}  // namespace hmann
