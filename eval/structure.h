/// The index that a given number of bytes of fast memory per vector buys, exact to the
/// byte, since benchmarks compare at equal bytes. (PlanMemory's rule is for machines and
/// takes whole pages.)
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "eval/system.h"
#include "index/tune/plan_structure.h"

namespace hmann::eval {

/// The most code bits that leave a seventh of the bytes to the promoted nodes, or none.
/// The paper's figures were measured with these (SIFT: 2 bits at 43 bytes, 4 at 86).
std::uint32_t BitsForBytes(const PlanShape& shape, double bytes_a_vector);

/// As many promoted nodes as the bytes hold in addition to codes of `bits` bits. The
/// bytes cover upper layers, promoted vectors, codes and cells, but not L0. Errors: those
/// of HeaderOf; RESOURCE_EXHAUSTED if the bytes are too few for any structure.
absl::StatusOr<PlanStructure> StructureForBytes(const PlanShape& shape, double bytes_a_vector,
                                                std::uint32_t bits);

/// The structure as build settings of hmann's adapter: "promote", "bits".
Json BuildSettingsOf(const PlanShape& shape, const PlanStructure& structure);

}  // namespace hmann::eval
