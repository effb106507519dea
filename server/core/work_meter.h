#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "hmann/resolved_params.h"

namespace hmann::server {

/// How much work one query asks for, independent of the machine.
struct Effort {
  std::optional<SearchMode> mode = SearchMode::kGraph;  ///< none: a fetch by label
  std::uint64_t width = 1;                              ///< candidates or cells
  std::chrono::nanoseconds budget{0};                   ///< the search ends then; 0: none
};

/// Converts `params` and `budget` to an effort.
Effort EffortOf(const ResolvedParams& params, std::chrono::nanoseconds budget);

/// The thread time that a query takes, learned from finished queries. It keeps one mean
/// per mode (and for fetches by label) and per power of two of the width. It measures
/// wall time, which includes the effect of devices and other processes. Thread-safe.
class WorkMeter {
 public:
  /// The estimated time. A width not seen yet is scaled in proportion from the nearest
  /// one seen. With none seen, it guesses 1 us per unit of width.
  std::chrono::nanoseconds Estimate(const Effort& effort) const;
  /// Records the time of one query. `whole` false: it was cut off and would have taken
  /// longer.
  void Observe(const Effort& effort, std::chrono::nanoseconds time, bool whole);

 private:
  static constexpr std::size_t kWidths = 40;
  using Means = std::array<std::atomic<std::int64_t>, kWidths>;  // ns; 0: none yet
  std::array<Means, kModes + 1> means_{};
};

}  // namespace hmann::server
