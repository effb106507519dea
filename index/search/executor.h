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
#include "hmann/resolved_params.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Queries 0 .. n - 1 that share their parameters: see Searcher::SearchMany. The caller
/// owns everything.
struct QueryBatch {
  std::size_t n = 0;
  std::uint32_t in_flight = 1;
  const std::function<const void*(std::size_t)>& query;
  const ResolvedParams& params;
  const std::function<void(std::size_t, const absl::Status&, Answer&)>& done;
  Counters* counters = nullptr;
  const SearchLimits& limits;

  /// Whether distinct reads are counted.
  bool ListsReads() const { return counters != nullptr && limits.distinct_reads; }
};

/// Records to read for their content. The caller owns everything.
struct RecordBatch {
  std::span<const NodeId> ids;  ///< ids of unpromoted nodes
  RecordPart part;              ///< kLabel or kRecord
  /// Called once with the record of each ids[i], from the executor's thread. The record
  /// is valid during the call.
  const std::function<void(std::size_t i, const std::byte* record)>& done;
  Counters* counters = nullptr;
  const SearchLimits& limits;
};

/// Tells an executor when to give up. Reads the clock only every few calls.
class StopCheck {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StopCheck(const SearchLimits& limits)
      : limits_(limits),
        is_free_(limits.cancelled == nullptr && limits.deadline == Clock::time_point::max()) {}

  /// When a query that begins now must end with what it has.
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

/// Fetches the records that queries want and advances the queries meanwhile. It also
/// enforces budget, deadline and cancellation. There is one implementation per kind of
/// tier. Keeps its memory between batches; one per thread.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Errors: those that prevent all queries; errors of one query go to `done`.
  virtual absl::Status Run(const QueryBatch& batch) = 0;
  /// Keeps several reads in flight at once. Errors: as for a query.
  virtual absl::Status Read(const RecordBatch& batch) = 0;
};

/// Makes the executor for the tier on which the index lies. `index` must outlive the
/// executor.
std::unique_ptr<Executor> MakeExecutor(const PlacedIndex& index);

}  // namespace hmann
