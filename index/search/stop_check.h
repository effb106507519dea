#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "index/dials/answer.h"

namespace hmann {

/// Tells a driver when to give up. Looks at the clock only every few calls.
class StopCheck {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StopCheck(const SearchLimits& limits)
      : limits_(limits), is_free_(limits.cancelled == nullptr && limits.deadline == Clock::time_point::max()) {}

  /// When a query that begins now is to end with what it has.
  static Clock::time_point CutOf(const SearchLimits& limits) {
    return limits.budget.count() > 0 ? Clock::now() + limits.budget : Clock::time_point::max();
  }

  /// Call once per step. Errors: those of Now.
  absl::Status Step() {
    if (is_free_ || ++calls_ % 16 != 0) return absl::OkStatus();
    return Now();
  }

  /// Errors: DEADLINE_EXCEEDED, CANCELLED.
  absl::Status Now() const {
    if (limits_.cancelled != nullptr && limits_.cancelled->load(std::memory_order_relaxed)) return absl::CancelledError("search cancelled");
    if (Clock::now() >= limits_.deadline) return absl::DeadlineExceededError("the deadline passed during the search");
    return absl::OkStatus();
  }

 private:
  const SearchLimits& limits_;
  const bool is_free_;
  std::uint32_t calls_ = 0;
};

}  // namespace hmann
