/// Which index so many bytes of fast memory a vector buy.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "index/tune/placement_choices.h"

namespace hmann {

/// The planner's choice for a slow tier whose structures in fast memory (upper layers,
/// promoted vectors, codes, cells, cache; without reserve, pages not rounded up) take
/// at most `bytes_a_vector` of each vector, and hardly less; L0 is none of them.
/// Errors: those of PlanPlacement; RESOURCE_EXHAUSTED naming the bytes for fewer than
/// anything takes.
absl::StatusOr<PlacementPlan> PlanForBytes(const PlanShape& shape, const std::string& slow,
                                           double bytes_a_vector);

/// Bytes of those structures.
std::uint64_t StructureBytesOf(const PlacementPlan& plan);

/// Build settings of hmann's adapter for it: "promote", "bits", "replicas".
Json BuildSettingsOf(const PlanShape& shape, const PlacementPlan& plan);
/// And how it is opened: "cache", "cache_bytes"; {} without a cache.
Json CacheSettingsOf(const PlacementPlan& plan);

}  // namespace hmann
