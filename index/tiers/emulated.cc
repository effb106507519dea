#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"
#include "index/tiers/kinds.h"
#include "index/tiers/region_builder.h"

namespace hmann {
namespace {

class EmulatedTier : public Tier {
 public:
  EmulatedTier(std::string name, std::shared_ptr<EmulatedBus> bus)
      : Tier({.name = std::move(name)}), bus_(std::move(bus)) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    HMANN_ASSIGN_OR_RETURN(Region region,
                           PlaceInMemory(traits().name, std::nullopt, source, progress));
    RegionBuilder::Emulate(region, bus_);
    return region;
  }

 private:
  std::shared_ptr<EmulatedBus> bus_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tier>> MakeEmulatedTier(std::string_view settings) {
  HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(settings));
  HMANN_ASSIGN_OR_RETURN(std::shared_ptr<EmulatedBus> bus, EmulatedBus::Make(spec));
  return std::make_unique<EmulatedTier>(
      absl::StrCat("emulated:", absl::string_view(settings.data(), settings.size())),
      std::move(bus));
}

}  // namespace hmann
