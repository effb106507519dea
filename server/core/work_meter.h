#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "hmann/dials.h"

namespace hmann::server {

/// How much one query asks for, before anything is known of the machine.
struct Effort {
  std::optional<WalkKind> walk = WalkKind::kBestFirst;  ///< none: a vector that is got by label
  std::uint64_t width = 1;             ///< candidates that it may keep, cells that it reads
  std::chrono::nanoseconds budget{0};  ///< more than 0: its search ends then
};

/// `dials` as an effort.
Effort EffortOf(const Dials& dials, std::chrono::nanoseconds budget);

/// What a query takes of a thread, learnt from those that ran: one mean for each walk and
/// for what is none, and for each power of two of the width. Wall time, so that what a
/// device or other processes take is in it. Thread-safe.
class WorkMeter {
 public:
  /// Of a width that was not seen yet: from the nearest that was, in proportion. When
  /// none was: a guess, 1 us for each unit of width.
  std::chrono::nanoseconds Estimate(const Effort& effort) const;
  /// A query took so long. `whole` false: it was cut off, and would have taken longer.
  void Observe(const Effort& effort, std::chrono::nanoseconds time, bool whole);

 private:
  static constexpr std::size_t kWidths = 40;
  using Means = std::array<std::atomic<std::int64_t>, kWidths>;  // ns; 0: none yet
  std::array<Means, kWalks + 1> means_{};
};

}  // namespace hmann::server
