#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/tiers/tier.h"

namespace hmann {

/// "emulated:SETTINGS": dram, with a bus that makes every access slower which is told to
/// EmulatedLines. Errors: those of EmulationSpec::Parse and EmulatedBus::Make.
absl::StatusOr<std::unique_ptr<Tier>> MakeEmulatedTier(std::string_view settings);

}  // namespace hmann
