#include "absl/strings/str_cat.h"
#include "index/tiers/dram.h"
#include "index/tiers/mapped.h"
#include "index/tiers/tier.h"

namespace hmann {

absl::StatusOr<std::unique_ptr<Tier>> MakeTier(std::string_view spec) {
  constexpr std::string_view kNuma = "numa:", kMapped = "mapped:";
  if (spec == "dram") return MakeDramTier();
  if (spec == "mapped") return MakeMappedTier();
  if (spec.starts_with(kNuma)) return MakeNumaTier(spec.substr(kNuma.size()));
  if (spec.starts_with(kMapped) && spec.size() > kMapped.size()) return MakeMappedCopyTier(std::string(spec.substr(kMapped.size())));
  return absl::InvalidArgumentError(absl::StrCat("tier '", std::string(spec), "': this build has dram, numa:N, mapped and mapped:PATH"));
}

}  // namespace hmann
