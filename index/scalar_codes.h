#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "hmann/tier.h"
#include "index/codes/scalar_quantizer.h"
#include "index/search/placed_index.h"

namespace hmann {

/// In memory, codes begin at multiples of this: half a cache line, so that codes of 96
/// bytes are not padded. Without that, queries of 96-d and 100-d vectors took 1.2 times
/// as long (doc/notes/format.md).
constexpr std::size_t kCodeAlignment = 32;

/// Scalar-quantization codes of all nodes. A mode over `view` scores nodes by these
/// codes, and its results are ranked by exact distances (RerankTraversal). They replace
/// no other codes: quantized search uses those of unpromoted nodes.
struct ScalarCodes {
  ScalarQuantizer quantizer;
  std::optional<Region> region;  ///< of codes that are not mapped
  PlacedIndex view;
  std::string tier;  ///< of the region, as requested
};

/// `codes`: those of the file. `index`: placed, with at least one upper layer; must
/// outlive the result.
std::unique_ptr<ScalarCodes> ViewScalarCodes(const PlacedIndex& index, ScalarQuantizer quantizer,
                                             const std::byte* codes, std::size_t stride);

/// Copies `stored`, the codes of the file, or makes them from the vectors if it is
/// nullptr, on a few threads. L0 is on an addressable tier. `tier`: where they go.
/// Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<ScalarCodes>> MakeScalarCodes(const PlacedIndex& index,
                                                             ScalarQuantizer quantizer,
                                                             const std::byte* stored,
                                                             const Tier& tier, Progress& progress);

}  // namespace hmann
