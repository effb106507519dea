#include <atomic>

#include "hmann/tier.h"
#include "index/base/status_macros.h"
#include "index/tiers/kinds.h"

namespace hmann {

namespace {

std::atomic<TierMaker> registered{nullptr};

}  // namespace

void RegisterTiers(TierMaker maker) { registered = maker; }

absl::StatusOr<std::unique_ptr<Tier>> MakeTier(std::string_view spec) {
  if (const TierMaker maker = registered; maker != nullptr) {
    HMANN_ASSIGN_OR_RETURN(std::unique_ptr<Tier> tier, maker(spec));
    if (tier != nullptr) return tier;
  }
  const std::size_t colon = spec.find(':');
  const std::string_view kind = spec.substr(0, colon);
  if (colon == std::string_view::npos) {
    if (kind == "dram") return MakeDramTier();
    if (kind == "mapped") return MakeMappedTier();
    if (kind == "nvme") return MakeNvmeTier();
  } else {
    const std::string_view rest = spec.substr(colon + 1);
    if (kind == "numa") return MakeNumaTier(rest);
    if (kind == "emulated") return MakeEmulatedTier(rest);
    if (kind == "mapped" && !rest.empty()) return MakeMappedCopyTier(std::string(rest));
    if (kind == "dax" && !rest.empty()) return MakeDaxTier(std::string(rest));
    if (kind == "nvme" && !rest.empty()) return MakeNvmeCopyTier(std::string(rest));
  }
  return InvalidArgument(
      "tier '", absl::string_view(spec.data(), spec.size()),
      "': expected dram, numa:N, mapped[:PATH], dax:PATH, nvme[:PATH] or emulated:SETTINGS");
}

}  // namespace hmann
