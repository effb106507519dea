#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "hmann/tier.h"
#include "index/codes/scalar_quantiser.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Codes of scalar quantisation of all nodes, made of an index's vectors when it is
/// opened: the index file has nothing of them. A walk over `view` scores nodes by its
/// codes, and what it finds is ranked by exact distances (RerankWalk). They take the
/// place of no other codes: quantised search goes by those of the file.
struct ScalarCodes {
  ScalarQuantiser quantiser;
  Region region;
  PlacedIndex view;
  std::string tier;  ///< of the region, as asked for
};

/// On a few threads. `index`: placed, on addressable tiers, with at least one upper
/// layer; must outlive them. `tier`: where they go. The same codes for the same index,
/// whatever the threads. Errors: INVALID_ARGUMENT (bits), RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<ScalarCodes>> MakeScalarCodes(const PlacedIndex& index,
                                                             std::uint32_t bits, const Tier& tier,
                                                             Progress& progress);

}  // namespace hmann
