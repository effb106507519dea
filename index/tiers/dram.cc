#include <numa.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/kinds.h"
#include "index/tiers/region_builder.h"

namespace hmann {
namespace {

absl::StatusOr<Region> MakeInMemory(const std::string& tier, std::optional<int> node,
                                    std::uint64_t bytes,
                                    const std::function<void(std::byte*)>& fill);

class MemoryTier : public Tier {
 public:
  MemoryTier(std::string name, std::optional<int> node)
      : Tier({.name = std::move(name)}), node_(node) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    return PlaceInMemory(traits().name, node_, source, progress);
  }
  absl::StatusOr<Region> Make(std::uint64_t bytes,
                              const std::function<void(std::byte*)>& fill) const override {
    return MakeInMemory(traits().name, node_, bytes, fill);
  }

 private:
  std::optional<int> node_;
};

absl::Status ProveNode(const std::string& tier, int wanted, const Region& region) {
  for (const auto& [node, share] : region.Where().nodes) {
    if (node == wanted) continue;
    return ResourceExhausted("tier ", tier, ": expected all of ", FormatSize(region.size()),
                             " on node ", wanted, "; found ", static_cast<int>(share * 100),
                             " % on node ", node);
  }
  return absl::OkStatus();
}

absl::StatusOr<Region> MakeInMemory(const std::string& tier, std::optional<int> node,
                                    std::uint64_t bytes,
                                    const std::function<void(std::byte*)>& fill) {
  HMANN_ASSIGN_OR_RETURN(RegionBuilder builder, RegionBuilder::Anonymous(tier, bytes, node));
  fill(builder.data());
  builder.Lock(tier);
  return std::move(builder).Seal();
}

std::vector<int> UsableNodes() {
  std::vector<int> nodes;
  if (::numa_available() < 0) return nodes;
  bitmask* allowed = ::numa_get_mems_allowed();
  for (int node = 0; node <= ::numa_max_node(); ++node) {
    if (::numa_bitmask_isbitset(allowed, static_cast<unsigned>(node)) != 0) nodes.push_back(node);
  }
  ::numa_bitmask_free(allowed);
  return nodes;
}

}  // namespace

absl::StatusOr<Region> PlaceInMemory(const std::string& tier, std::optional<int> node,
                                     const PlacementSource& source, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(RegionBuilder builder,
                         RegionBuilder::Anonymous(tier, source.bytes.size(), node));
  progress.Start(absl::StrCat("load into ", tier), source.bytes.size(), "bytes");
  HMANN_RETURN_IF_ERROR(builder.Fill(source, progress));
  progress.Finish();
  builder.Lock(tier);
  HMANN_ASSIGN_OR_RETURN(Region region, std::move(builder).Seal());
  if (node.has_value()) HMANN_RETURN_IF_ERROR(ProveNode(tier, *node, region));
  return region;
}

absl::StatusOr<Region> Tier::Make(std::uint64_t bytes,
                                  const std::function<void(std::byte*)>& fill) const {
  return MakeInMemory("dram", std::nullopt, bytes, fill);
}

std::unique_ptr<Tier> MakeDramTier() { return std::make_unique<MemoryTier>("dram", std::nullopt); }

absl::StatusOr<std::unique_ptr<Tier>> MakeNumaTier(std::string_view node) {
  const absl::string_view text(node.data(), node.size());
  const std::vector<int> nodes = UsableNodes();
  int number = -1;
  if (!absl::SimpleAtoi(text, &number) ||
      std::find(nodes.begin(), nodes.end(), number) == nodes.end()) {
    return InvalidArgument(
        "tier numa:", text, ": expected a node that this process may use, which are ",
        nodes.empty() ? "none: the kernel has no NUMA support" : absl::StrJoin(nodes, ", "));
  }
  return std::make_unique<MemoryTier>(absl::StrCat("numa:", number), number);
}

}  // namespace hmann
