/// Which index so many bytes of fast memory a vector buy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "index/tune/memory_rule.h"

namespace hmann {

/// The rule's choice for a slow tier whose structures in fast memory (upper layers,
/// promoted vectors, codes, cells, cache; without reserve, pages not rounded up) take
/// at most `bytes_a_vector` of each vector, and hardly less; L0 is none of them. `bits`,
/// when given, are those of codes.
/// Errors: those of PlanPlacement; RESOURCE_EXHAUSTED naming the bytes for fewer than
/// anything takes.
absl::StatusOr<PlacementPlan> PlanForBytes(const PlanShape& shape, const std::string& slow,
                                           double bytes_a_vector,
                                           std::optional<std::uint32_t> bits = std::nullopt);

/// The same with the codes that the rule takes on a drive; nothing where it takes none.
absl::StatusOr<std::optional<PlacementPlan>> PlanCodesForBytes(const PlanShape& shape,
                                                               const std::string& slow,
                                                               double bytes_a_vector);

/// Bytes of those structures.
std::uint64_t StructureBytesOf(const PlacementPlan& plan);

/// Build settings of hmann's adapter for it: "promote", "bits", "replicas".
Json BuildSettingsOf(const PlanShape& shape, const PlacementPlan& plan);
/// And how it is opened: "cache", "cache_bytes"; {} without a cache.
Json CacheSettingsOf(const PlacementPlan& plan);

}  // namespace hmann
