#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "index/tiers/tier.h"

namespace hmann {

/// "dram": memory from wherever the kernel's policy takes it, in 2 MiB pages where it has
/// them, locked where that is allowed.
std::unique_ptr<Tier> MakeDramTier();

/// "numa:N": the same, from node N alone (CXL memory shows up as a node without CPUs).
/// Place proves it with move_pages. Errors: INVALID_ARGUMENT naming the nodes that this
/// process may use.
absl::StatusOr<std::unique_ptr<Tier>> MakeNumaTier(std::string_view node);

/// What Place of these tiers does: `tier` names it in messages.
absl::StatusOr<Region> PlaceInMemory(const std::string& tier, std::optional<int> node,
                                     const PlacementSource& source, Progress& progress);

}  // namespace hmann
