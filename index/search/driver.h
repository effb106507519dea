#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "hmann/answer.h"
#include "hmann/counters.h"
#include "hmann/dials.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Queries 0 .. n - 1 that share their dials: see Searcher::SearchMany. Everything is the
/// caller's.
struct QueryBatch {
  std::size_t n = 0;
  std::uint32_t in_flight = 1;
  const std::function<const void*(std::size_t)>& query;
  const Dials& dials;
  const std::function<void(std::size_t, const absl::Status&, Answer&)>& done;
  Counters* counters = nullptr;
  const SearchLimits& limits;
};

/// Records that somebody reads for what is in them. Everything is the caller's.
struct RecordBatch {
  std::span<const NodeId> ids;  ///< of unpromoted nodes
  RecordPart part;              ///< kLabel or kRecord
  /// The record of ids[i]: called once for each, from the driver's thread; valid
  /// meanwhile.
  const std::function<void(std::size_t i, const std::byte* record)>& done;
  Counters* counters = nullptr;
  const SearchLimits& limits;
};

/// Tells a driver when to give up. Looks at the clock only every few calls.
class StopCheck {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StopCheck(const SearchLimits& limits)
      : limits_(limits),
        is_free_(limits.cancelled == nullptr && limits.deadline == Clock::time_point::max()) {}

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
    if (limits_.cancelled != nullptr && limits_.cancelled->load(std::memory_order_relaxed))
      return absl::CancelledError("search cancelled");
    if (Clock::now() >= limits_.deadline)
      return absl::DeadlineExceededError("the deadline passed during the search");
    return absl::OkStatus();
  }

 private:
  const SearchLimits& limits_;
  const bool is_free_;
  std::uint32_t calls_ = 0;
};

/// Who fetches the records that queries want, and advances the queries meanwhile; budget,
/// deadline and cancellation are its to watch. One for each kind of tier. Keeps its
/// memory between batches; one per thread.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Errors: what prevents all queries; those of one query go to `done`.
  virtual absl::Status Run(const QueryBatch& batch) = 0;
  /// Several reads are under way at once. Errors: as of a query.
  virtual absl::Status Read(const RecordBatch& batch) = 0;
};

/// For the tier on which the index lies, which must outlive the driver.
std::unique_ptr<Driver> MakeDriver(const PlacedIndex& index);

}  // namespace hmann
