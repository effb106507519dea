#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "hmann/distance.h"
#include "hmann/tune.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(field.first) == "model name")
      return std::string(absl::StripAsciiWhitespace(field.second));
  }
#if defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

/// Writes as many digits as the spread allows.
Json ToJson(const Figure& figure) {
  Json json = {{"median", Rounded(figure)}, {"spread", Rounded({figure.spread, 0.1})}};
  if (figure.noisy()) json["noisy"] = true;
  return json;
}

Json ToJson(const MemoryProfile& memory) {
  Json in_flight = Json::array();
  for (const LoadsInFlight& at : memory.in_flight)
    in_flight.push_back({{"loads", at.loads}, {"ns_per_line", ToJson(at.ns_per_line)}});
  return {{"tier", memory.tier},
          {"in_flight", in_flight},
          {"bandwidth_gb_per_s", ToJson(memory.bandwidth_gb_per_s)},
          {"peak_gb_per_s", ToJson(memory.peak_gb_per_s)},
          {"thr", Rounded({memory.thr(), memory.peak_gb_per_s.spread})}};
}

Json ToJson(const BlockProfile& block) {
  Json depths = Json::array();
  for (const BlockDepth& at : block.depths) {
    depths.push_back({{"depth", at.depth},
                      {"read_us", ToJson(at.read_us)},
                      {"reads_per_s", Rounded({at.reads_per_s(), at.read_us.spread})}});
  }
  return {{"tier", block.tier},
          {"device", block.device},
          {"file_bytes", block.file_bytes},
          {"depths", depths}};
}

}  // namespace

MachineIdentity ThisMachine() {
  MachineIdentity machine;
  machine.cpu_model = CpuModel();
  machine.cores = UsableCores();
  machine.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  if (const absl::StatusOr<std::string_view> simd = ChosenSimd(); simd.ok())
    machine.simd = std::string(*simd);
  return machine;
}

const MemoryProfile* DeviceProfile::Memory(std::string_view tier) const {
  const auto found = std::find_if(memory.begin(), memory.end(),
                                  [&](const MemoryProfile& one) { return one.tier == tier; });
  return found == memory.end() ? nullptr : &*found;
}

absl::Status WriteProfile(const DeviceProfile& profile, const std::string& path) {
  const auto& [machine, noise, seconds, tiers, drives] = profile;
  const auto share = [](double value) { return Rounded({value, 0.1}); };
  Json memory = Json::array();
  for (const MemoryProfile& tier : tiers) memory.push_back(ToJson(tier));
  Json blocks = Json::array();
  for (const BlockProfile& drive : drives) blocks.push_back(ToJson(drive));
  const Json json = {{"hmann_profile", 2},
                     {"machine",
                      {{"cpu_model", machine.cpu_model},
                       {"cores", machine.cores},
                       {"memory_bytes", machine.memory_bytes},
                       {"simd", machine.simd}}},
                     {"noise",
                      {{"repeats", noise.repeats},
                       {"median_spread", share(noise.median_spread)},
                       {"worst_spread", share(noise.worst_spread)},
                       {"steal_share", share(noise.steal_share)},
                       {"busy_share", share(noise.busy_share)}}},
                     {"seconds", share(seconds)},
                     {"memory", memory},
                     {"blocks", blocks}};
  return WriteTextFile(path, JsonText(json, 2) + "\n");
}

absl::Status ProfileOptions::Validate() const {
  if (repeats < 3 || repeats > 1000)
    return InvalidArgument("repeats: expected 3 to 1000, found ", repeats);
  if (budget.count() < 1) return InvalidArgument("budget: expected at least 1 ms");
  return absl::OkStatus();
}

}  // namespace hmann
