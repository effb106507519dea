#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "index/base/prefetch.h"
#include "index/dials/answer.h"
#include "index/dials/dials.h"
#include "index/search/access.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Tells a driver when to give up. Looks at the clock only every few calls.
class StopCheck {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `cut`: when the query is to end with what it has.
  explicit StopCheck(const SearchLimits& limits, TimePoint cut = TimePoint::max())
      : limits_(limits), cut_(cut), idle_(limits.cancelled == nullptr && limits.deadline == TimePoint::max() && cut == TimePoint::max()) {}

  /// When a query that begins now is to end with what it has.
  static TimePoint CutOf(const SearchLimits& limits) {
    return limits.budget.count() > 0 ? std::chrono::steady_clock::now() + limits.budget : TimePoint::max();
  }

  /// Call once per step; OK means go on, unless the budget is spent. Errors: DEADLINE_EXCEEDED, CANCELLED.
  absl::Status Step() {
    if (idle_ || ++calls_ % 16 != 0) return absl::OkStatus();
    return Look();
  }

  /// Step that looks at the clock at once.
  absl::Status Look() {
    if (cut_ != TimePoint::max() && std::chrono::steady_clock::now() >= cut_) spent_ = true;
    return Now();
  }
  bool spent() const { return spent_; }

  absl::Status Now() const {
    if (limits_.cancelled != nullptr && limits_.cancelled->load(std::memory_order_relaxed)) return absl::CancelledError("search cancelled");
    if (std::chrono::steady_clock::now() >= limits_.deadline) return absl::DeadlineExceededError("the deadline passed during the search");
    return absl::OkStatus();
  }
  bool idle() const { return idle_; }

 private:
  const SearchLimits& limits_;
  TimePoint cut_;
  bool idle_;
  bool spent_ = false;
  std::uint32_t calls_ = 0;
};

/// The pointers that a driver hands to a walk; kept between searches.
using RecordPointers = std::vector<const std::byte*>;

/// Has what a walk wants brought near: records[i] becomes the record of Wanted()[i], with the slots from `first_slot` on.
template <typename Walk, typename Access>
void AskForWanted(const Walk& walk, Access& access, std::span<const std::byte*> records, std::size_t first_slot) {
  const std::span<const NodeId> wanted = walk.Wanted();
  const RecordPart part = walk.Part();
  for (std::size_t i = 0; i < wanted.size(); ++i) records[i] = access.Ask(wanted[i], part, first_slot + i);
  if (part != RecordPart::kRow) return;
  // The runners-up are expanded next unless one of these vectors beats them.
  walk.ForUpcoming([&access](NodeId next) { access.Hint(next); });
}

/// Walks that one thread drives at once: eight with up to 2M rows each fill the line-fill buffers many times over.
constexpr std::size_t kWalksInFlight = 8;

/// Direct driver, for tiers that hand out pointers: one walk to its end.
template <typename Walk, typename Access>
absl::Status DriveDirect(Walk& walk, const PlacedIndex& index, Access& access, RecordPointers& records, StopCheck& stop) {
  records.resize(std::max<std::size_t>(kMaxPoolWidth * std::size_t{index.records.max_links}, kMaxWidth));
  while (!walk.Done()) {
    AskForWanted(walk, access, records, 0);
    access.Await(walk.Wanted(), walk.Part(), 0);
    walk.Absorb({records.data(), walk.Wanted().size()});
    if (absl::Status status = stop.Step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

/// Interleaving driver: advances several walks of one thread in turn, so that each one's fetches are under way while the others compute.
/// At most kWalksInFlight walks. Returns early when the budget is spent.
template <typename Walk, typename Access>
absl::Status DriveInterleaved(std::span<Walk> walks, const PlacedIndex& index, Access& access, RecordPointers& records, StopCheck& stop) {
  const std::size_t most = index.records.max_links;
  records.resize(kWalksInFlight * most);
  const auto slots = [&](std::size_t i) { return std::span(records).subspan(i * most, most); };
  for (std::size_t i = 0; i < walks.size(); ++i) {
    if (!walks[i].Done()) AskForWanted(walks[i], access, slots(i), i * most);
  }
  for (bool busy = true; busy;) {
    busy = false;
    for (std::size_t i = 0; i < walks.size(); ++i) {
      Walk& walk = walks[i];
      if (walk.Done()) continue;
      access.Await(walk.Wanted(), walk.Part(), i * most);
      walk.Absorb(slots(i).first(walk.Wanted().size()));
      if (walk.Done()) continue;
      AskForWanted(walk, access, slots(i), i * most);
      busy = true;
    }
    if (absl::Status status = stop.Step(); !status.ok() || stop.spent()) return status;
  }
  return absl::OkStatus();
}

}  // namespace hmann
