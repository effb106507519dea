/// Which index so many bytes of fast memory a vector buy, to the byte: benchmarks compare
/// at equal bytes. (The rule of PlanPlacement is for machines: it takes whole pages.)
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "index/tune/plan_structure.h"

namespace hmann::eval {

/// With codes of the most bits that leave the promoted nodes a seventh of the bytes, or
/// none: what the paper's figures were measured with (of SIFT, 43 bytes: 2 bits, 86: 4).
std::uint32_t BitsForBytes(const PlanShape& shape, double bytes_a_vector);

/// As many promoted nodes as the bytes hold beside codes of so many bits: upper layers,
/// promoted vectors, codes and cells; L0 is none of them. Errors: those of HeaderOf;
/// RESOURCE_EXHAUSTED for fewer bytes than anything takes.
absl::StatusOr<PlanStructure> StructureForBytes(const PlanShape& shape, double bytes_a_vector,
                                                std::uint32_t bits);

/// Build settings of hmann's adapter for it: "promote", "bits".
Json BuildSettingsOf(const PlanShape& shape, const PlanStructure& structure);

}  // namespace hmann::eval
