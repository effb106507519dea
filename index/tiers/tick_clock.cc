#include "index/tiers/tick_clock.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

struct Moment {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
};

std::int64_t RawNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

/// Both clocks at one moment: of many pairs, one that was read without an interruption.
Moment ReadBoth() {
  const TickClock clock;
  Moment best;
  std::uint64_t shortest = ~std::uint64_t{0};
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t before = clock.Now();
    const std::int64_t ns = RawNs();
    const std::uint64_t after = clock.Now();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {before + shortest / 2, ns};
  }
  return best;
}

}  // namespace

absl::Status CheckConstantTsc(std::string_view cpuinfo) {
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(cpuinfo.data(), cpuinfo.size()), '\n')) {
    if (line.substr(0, 5) != "flags") continue;
    const std::vector<absl::string_view> flags = absl::StrSplit(line, absl::ByAnyChar(" \t"));
    for (const char* wanted : {"constant_tsc", "nonstop_tsc"}) {
      if (std::find(flags.begin(), flags.end(), wanted) != flags.end()) continue;
      return FailedPrecondition("/proc/cpuinfo: expected the CPU flag ", wanted,
                                ", found none: waits cannot be timed with this CPU's TSC");
    }
    return absl::OkStatus();
  }
  return FailedPrecondition("/proc/cpuinfo: expected a line of CPU flags, found none");
}

absl::Status CheckDrift(std::span<const double> rates) {
  constexpr double kMost = 1e-3;
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  if (least != rates.end() && *least > 0 && *most - *least <= kMost * *least)
    return absl::OkStatus();
  return FailedPrecondition(
      "the CPU's tick counter drifts: expected one rate to ", kMost * 100, " %, found ",
      least == rates.end() ? "none" : absl::StrCat(*least, " to ", *most, " ticks per ns"),
      ": waits cannot be timed with it");
}

absl::StatusOr<double> MeasureTicksPerNs() {
#if defined(__x86_64__)
  std::ifstream cpuinfo("/proc/cpuinfo");
  HMANN_RETURN_IF_ERROR(CheckConstantTsc(std::string(std::istreambuf_iterator<char>(cpuinfo), {})));
#endif
  std::array<double, 4> rates;
  const Moment first = ReadBoth();
  Moment last = first;
  for (double& rate : rates) {
    const Moment before = last;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    last = ReadBoth();
    rate =
        static_cast<double>(last.ticks - before.ticks) / static_cast<double>(last.ns - before.ns);
  }
  HMANN_RETURN_IF_ERROR(CheckDrift(rates));
  return static_cast<double>(last.ticks - first.ticks) / static_cast<double>(last.ns - first.ns);
}

}  // namespace hmann
