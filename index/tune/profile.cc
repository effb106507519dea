#include "index/tune/profile.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "index/base/cpu.h"
#include "index/base/units.h"
#include "index/distance/distance.h"

namespace hmann {
namespace {

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

std::string MachineDifference(const MachineIdentity& profile, const MachineIdentity& here) {
  std::vector<std::string> clauses;
  if (profile.cpu_model != here.cpu_model)
    clauses.push_back(absl::StrCat("CPU ", profile.cpu_model, ", here ", here.cpu_model));
  if (profile.cores != here.cores)
    clauses.push_back(absl::StrCat(profile.cores, " usable cores, here ", here.cores));
  // The kernel keeps some for itself, and how much changes with its version.
  const auto memory = static_cast<double>(here.memory_bytes);
  if (std::abs(static_cast<double>(profile.memory_bytes) - memory) > 0.05 * memory) {
    clauses.push_back(absl::StrCat(FormatSize(profile.memory_bytes), " of memory, here ",
                                   FormatSize(here.memory_bytes)));
  }
  if (profile.simd != here.simd)
    clauses.push_back(absl::StrCat("kernels ", profile.simd, ", here ", here.simd));
  return absl::StrJoin(clauses, "; ");
}

const MemoryProfile* DeviceProfile::Memory(std::string_view tier) const {
  const auto found = std::find_if(memory.begin(), memory.end(),
                                  [&](const MemoryProfile& one) { return one.tier == tier; });
  return found == memory.end() ? nullptr : &*found;
}

const BlockProfile* DeviceProfile::Block(std::string_view tier) const {
  const auto found = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const BlockProfile& one) { return one.tier == tier; });
  return found == blocks.end() ? nullptr : &*found;
}

double NsPerLine(const MemoryProfile& memory, double loads) {
  const std::vector<LoadsInFlight>& points = memory.in_flight;
  if (points.empty()) return 0;
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const LoadsInFlight& point) { return point.loads >= loads; });
  if (above == points.end()) return points.back().ns_per_line.median;
  if (above == points.begin()) return above->ns_per_line.median;
  const LoadsInFlight& below = *(above - 1);
  const double share = (loads - below.loads) / (above->loads - below.loads);
  return below.ns_per_line.median + share * (above->ns_per_line.median - below.ns_per_line.median);
}

absl::Status ProfileOptions::Validate() const {
  if (repeats < 3 || repeats > 1000)
    return absl::InvalidArgumentError(absl::StrCat("repeats: expected 3 to 1000, found ", repeats));
  if (budget.count() < 1) return absl::InvalidArgumentError("budget: expected at least 1 ms");
  return absl::OkStatus();
}

}  // namespace hmann
