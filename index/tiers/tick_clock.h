#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace hmann {

/// The CPU's tick counter: the cheapest clock available.
struct TickClock {
  std::uint64_t Now() const {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }
  /// Does not use `pause`, which takes 140 cycles on some CPUs: as much as the emulated
  /// latency.
  void SpinUntil(std::uint64_t tick) const {
    while (static_cast<std::int64_t>(Now() - tick) < 0) {
    }
  }
};

/// Ticks per nanosecond, measured several times against CLOCK_MONOTONIC_RAW: about 40 ms.
/// Errors: FAILED_PRECONDITION if the counter's rate changes: CheckConstantTsc (x86),
/// CheckDrift.
absl::StatusOr<double> MeasureTicksPerNs();

/// Errors: FAILED_PRECONDITION unless the flags in /proc/cpuinfo say that the TSC is
/// constant and does not stop.
absl::Status CheckConstantTsc(std::string_view cpuinfo);
/// Errors: FAILED_PRECONDITION unless consecutively measured rates agree to one part in a
/// thousand.
absl::Status CheckDrift(std::span<const double> rates);

}  // namespace hmann
