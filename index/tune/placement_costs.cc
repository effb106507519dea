#include "index/tune/placement_costs.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"

namespace hmann {
namespace {

constexpr double kMostLoads = 32;

/// As an emulated tier credits overlap: a line arrives a latency after it was asked for,
/// so many at once, and passes the bus alone.
void MakeSlower(const EmulationSpec& spec, MemoryProfile& memory) {
  const double latency = static_cast<double>(spec.latency_ns) + NsPerLine(memory, 1);
  const double bus =
      spec.bytes_per_second > 0 ? 64e9 / static_cast<double>(spec.bytes_per_second) : 0;
  for (LoadsInFlight& point : memory.in_flight) {
    point.ns_per_line.median =
        std::max({latency / std::min(point.loads, spec.lines), bus, point.ns_per_line.median});
  }
}

}  // namespace

double TierCost::BatchNs(double records, double lines) const {
  if (!is_block)
    return records * lines * NsPerLine(memory, std::clamp(records * lines, 1.0, kMostLoads));
  const std::vector<BlockDepth>& depths = block.depths;
  const auto above = std::find_if(depths.begin(), depths.end(),
                                  [&](const BlockDepth& point) { return point.depth >= records; });
  if (above == depths.begin()) return 1000 * above->read_us.median;
  if (above == depths.end())
    return 1000 * depths.back().read_us.median * records / depths.back().depth;
  const BlockDepth& below = *(above - 1);
  const double share = (records - below.depth) / (above->depth - below.depth);
  return 1000 * (below.read_us.median + share * (above->read_us.median - below.read_us.median));
}

absl::StatusOr<TierCost> CostOf(const DeviceProfile& profile, const std::string& tier) {
  const std::string kind = tier.substr(0, tier.find(':'));
  // What the emulator's books cost is not part of the memory that it stands for.
  const MemoryProfile* dram = profile.Memory("dram");
  if (kind == "emulated" && dram != nullptr) {
    HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec,
                           EmulationSpec::Parse(std::string_view(tier).substr(
                               std::min(tier.size(), kind.size() + 1))));
    TierCost cost{tier, *dram, {}, false};
    MakeSlower(spec, cost.memory);
    return cost;
  }
  if (const MemoryProfile* memory = profile.Memory(tier); memory != nullptr)
    return TierCost{tier, *memory, {}, false};
  const BlockProfile* block = profile.Block(tier);
  for (std::size_t i = 0; block == nullptr && kind == "nvme" && i < profile.blocks.size(); ++i)
    block = &profile.blocks[i];
  if (block != nullptr) return TierCost{tier, {}, *block, true};
  std::vector<std::string> known;
  for (const MemoryProfile& one : profile.memory) known.push_back(one.tier);
  for (const BlockProfile& one : profile.blocks) known.push_back(one.tier);
  return absl::InvalidArgumentError(absl::StrCat(
      "the profile knows nothing of tier ", tier, ", only of ", absl::StrJoin(known, ", "),
      ": measure it with `hmann profile --slow ", tier, "`"));
}

}  // namespace hmann
