#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "hmann/tier.h"
#include "index/codes/scalar_quantizer.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Scalar-quantization codes of all nodes, computed from an index's vectors when it is
/// opened; the index file does not contain them. A mode over `view` scores nodes by these
/// codes, and its results are ranked by exact distances (RerankTraversal). They replace
/// no other codes: quantized search uses those of the file.
struct ScalarCodes {
  ScalarQuantizer quantizer;
  Region region;
  PlacedIndex view;
  std::string tier;  ///< of the region, as requested
};

/// Runs on a few threads. `index`: placed, on addressable tiers, with at least one upper
/// layer; must outlive the result. `tier`: where the codes go. The same index gives the
/// same codes for any number of threads. Errors: INVALID_ARGUMENT (bits),
/// RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<ScalarCodes>> MakeScalarCodes(const PlacedIndex& index,
                                                             std::uint32_t bits, const Tier& tier,
                                                             Progress& progress);

}  // namespace hmann
