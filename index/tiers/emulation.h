#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "index/tiers/tick_clock.h"

namespace hmann {

/// A memory slower than the real one, as specified by
/// `emulated:lat=300ns,bw=6GB/s,lines=12`. The latency is added to that of the DRAM
/// below.
struct EmulationSpec {
  std::uint64_t latency_ns = 0;
  std::uint64_t bytes_per_second = 0;  ///< 0: no limit
  std::uint32_t lines =
      12;  ///< a core's maximum outstanding (line-fill buffers); at most kMostLines
  std::string preset = {};  ///< "optane": the figures' source, if not given one by one

  static constexpr std::uint32_t kMostLines = 64;

  /// The settings, to be printed with every figure: "lat=300ns,bw=6GB/s,lines=12". For a
  /// preset, its source follows.
  std::string ToString() const;
  /// Parses settings, separated by commas, in any order; or a preset, alone or first:
  /// "cxl,lines=16". The presets are in emulation.cc. Errors: INVALID_ARGUMENT naming the
  /// field.
  static absl::StatusOr<EmulationSpec> Parse(std::string_view settings);
};

/// The bus that all threads share: when the next line can be transferred. Ticks count
/// from `origin`. Thread-safe.
struct EmulatedBus {
  EmulationSpec spec;
  double ticks_per_ns = 0;
  std::uint64_t origin = 0;
  std::uint64_t latency_ticks = 0;
  std::uint64_t spin_ticks = 0;           ///< by which a spin ends late, measured at the start
  std::uint64_t line_cost = 0;            ///< 256ths of a tick per 64-byte line; 0: no limit
  std::atomic<std::uint64_t> free_at{0};  ///< in 256ths of a tick

  EmulatedBus(const EmulationSpec& wanted, double rate, std::uint64_t now);
  /// Measures the tick counter and how late a spin ends: about 40 ms. Errors:
  /// FAILED_PRECONDITION if the counter is not constant or drifts against the clock,
  /// because then no figure would mean anything.
  static absl::StatusOr<std::shared_ptr<EmulatedBus>> Make(const EmulationSpec& spec);

  /// Books `lines` transfers, the first at tick `now` or later. Returns its time in
  /// 256ths of a tick.
  std::uint64_t Take(std::uint64_t now, std::uint64_t lines) {
    if (line_cost == 0) return now << 8;
    std::uint64_t free = free_at.load(std::memory_order_relaxed);
    std::uint64_t begin;
    do {
      begin = free > now << 8 ? free : now << 8;
    } while (
        !free_at.compare_exchange_weak(free, begin + lines * line_cost, std::memory_order_relaxed));
    return begin;
  }
};

/// The lines that one thread has fetched, arrived or not. Like a cache, it keeps those of
/// the newest kMost stretches of 8 lines that the thread has accessed. A stretch is
/// identified by 32 bits: two are confused if they lie a multiple of 2 TiB apart.
class FetchedLines {
 public:
  static constexpr std::size_t kMost = 2048;
  static constexpr std::uint64_t kStretch = 8;

  FetchedLines() : slots_(kSlots), order_(kMost) {}

  /// Which of the stretch's lines in `lines` (one bit each) are here.
  std::uint32_t Find(std::uint64_t stretch, std::uint32_t lines) const {
    const std::uint64_t key = Key(stretch);
    for (std::size_t slot = Slot(key); slots_[slot] != 0; slot = Next(slot)) {
      if (slots_[slot] >> 8 == key) return static_cast<std::uint32_t>(slots_[slot]) & lines;
    }
    return 0;
  }
  /// Adds the lines and returns those that were not here. Forgets the oldest stretch when
  /// there are too many.
  std::uint32_t Insert(std::uint64_t stretch, std::uint32_t lines) {
    const std::uint64_t key = Key(stretch);
    std::size_t slot = Slot(key);
    for (; slots_[slot] != 0; slot = Next(slot)) {
      if (slots_[slot] >> 8 != key) continue;
      const std::uint32_t added = lines & ~static_cast<std::uint32_t>(slots_[slot]);
      slots_[slot] |= added;
      return added;
    }
    slots_[slot] = key << 8 | lines;
    std::uint64_t& place = order_[inserted_++ % kMost];
    if (inserted_ > kMost) Erase(place);
    place = key;
    return lines;
  }
  void Clear();

 private:
  static constexpr std::size_t kSlots = 2 * kMost;  // open addressing, at most half full

  static std::uint64_t Key(std::uint64_t stretch) { return (stretch & 0xffffffff) + 1; }
  static std::size_t Slot(std::uint64_t key) { return key * 0x9e3779b97f4a7c15u >> 52; }
  static std::size_t Next(std::size_t slot) { return (slot + 1) % kSlots; }
  void Erase(std::uint64_t key);

  static_assert(kSlots == std::size_t{1} << (64 - 52));
  std::vector<std::uint64_t>
      slots_;  ///< a stretch's key, then one bit for each of its lines; 0: free
  std::vector<std::uint64_t>
      order_;  ///< a ring of keys; once full, the oldest is at inserted_ % kMost
  std::size_t inserted_ = 0;
};

/// A queue of the lines that one thread has outstanding: they complete in the order of
/// their issue. Not thread-safe.
struct OutstandingLines {
  std::uint32_t oldest = 0, count = 0;
  std::array<std::uint64_t, EmulationSpec::kMostLines> line{}, done{};
};

/// The accesses of one thread to the emulated memory. k independent fetches in flight
/// cost one latency, not k. A fetch at time t completes at max(t, bus) + latency. A use
/// waits (spins on the tick counter) only for the remaining time. A record counts as
/// ceil(bytes touched / 64) lines. A fetch beyond `lines` outstanding ones stalls until a
/// line is free. A line that has arrived is in the CPU's cache. It costs nothing more
/// until Clear, or until many others have come (FetchedLines). Not thread-safe: one per
/// searching thread.
///
/// It reads the counter once for a fetch, and once or twice for a use whose lines are in
/// flight. Most of that is hidden in the added latency. `Clock` is the tick counter;
/// tests use their own.
template <class Clock>
class BasicEmulatedLines {
 public:
  /// `shared`: for queries that take turns in one thread, each with its own object,
  /// because a thread has one set of line-fill buffers. It must outlive this. nullptr: a
  /// set of its own.
  explicit BasicEmulatedLines(EmulatedBus* bus, Clock clock = Clock(),
                              OutstandingLines* shared = nullptr)
      : bus_(bus), clock_(clock), queue_(shared != nullptr ? shared : &own_) {}
  BasicEmulatedLines(const BasicEmulatedLines&) = delete;
  BasicEmulatedLines& operator=(const BasicEmulatedLines&) = delete;

  /// Prefetches the lines that hold [address, address + bytes).
  void Fetch(const std::byte* address, std::size_t bytes) {
    const Lines lines(address, bytes);
    lines.EachStretch([&](std::uint64_t stretch, std::uint32_t wanted) {
      const std::uint32_t missing = fetched_.Insert(stretch, wanted);
      if (missing != 0) Issue(stretch * FetchedLines::kStretch, missing);
      return true;
    });
  }

  /// A demand load of these lines: waits until all have arrived. Lines not fetched before
  /// are fetched now, together.
  void Use(const std::byte* address, std::size_t bytes) {
    Fetch(address, bytes);
    if (queue_->count == 0) return;
    const std::uint64_t arrival = Arrival(Lines(address, bytes));
    if (arrival > 0) WaitUntil(arrival);
  }

  /// Whether a use would not wait: all lines were fetched and have arrived.
  bool Arrived(const std::byte* address, std::size_t bytes) const {
    const Lines lines(address, bytes);
    const bool fetched = lines.EachStretch([&](std::uint64_t stretch, std::uint32_t wanted) {
      return fetched_.Find(stretch, wanted) == wanted;
    });
    if (!fetched || queue_->count == 0) return fetched;
    const std::uint64_t arrival = Arrival(lines);
    return arrival == 0 || arrival <= Now();
  }
  /// Whether a fetch of one more line would not stall.
  bool HasRoom() const {
    return queue_->count < bus_->spec.lines || queue_->done[queue_->oldest] <= Now();
  }

  /// Forgets what was fetched (a new query): nothing stays in a cache. Outstanding
  /// fetches still occupy their lines until they arrive.
  void Clear() { fetched_.Clear(); }

  std::uint64_t lines_fetched() const { return lines_fetched_; }
  /// Ticks waited in uses, and in fetches that stalled.
  std::uint64_t ticks_waited() const { return ticks_waited_; }

 private:
  struct Lines {
    std::uint64_t first, end;

    Lines(const std::byte* address, std::size_t bytes)
        : first(reinterpret_cast<std::uintptr_t>(address) / 64),
          end(bytes == 0 ? first
                         : (reinterpret_cast<std::uintptr_t>(address) + bytes - 1) / 64 + 1) {}
    /// Calls body(stretch, its lines as bits) until it returns false; returns whether it
    /// never did.
    template <class Body>
    bool EachStretch(const Body& body) const {
      constexpr std::uint64_t kStretch = FetchedLines::kStretch;
      for (std::uint64_t line = first; line < end; line = (line / kStretch + 1) * kStretch) {
        const std::uint64_t count = std::min(end, (line / kStretch + 1) * kStretch) - line;
        if (!body(line / kStretch, ((1u << count) - 1) << line % kStretch)) return false;
      }
      return true;
    }
  };
  std::uint64_t Now() const { return clock_.Now() - bus_->origin; }

  /// Issues fetches: of line `first` and those after it whose bits are set.
  void Issue(std::uint64_t first, std::uint32_t lines) {
    std::uint64_t now = Now();
    Retire(now);
    while (lines != 0) {
      if (queue_->count == bus_->spec.lines) {
        now = WaitUntil(queue_->done[queue_->oldest]);
        Retire(now);
      }
      const auto part = std::min<std::uint32_t>(static_cast<std::uint32_t>(std::popcount(lines)),
                                                bus_->spec.lines - queue_->count);
      lines_fetched_ += part;
      std::uint64_t begin = bus_->Take(now, part);
      for (std::uint32_t i = 0; i < part; ++i, begin += bus_->line_cost, lines &= lines - 1) {
        const std::size_t place = (queue_->oldest + queue_->count++) % EmulationSpec::kMostLines;
        queue_->line[place] = first + static_cast<std::uint64_t>(std::countr_zero(lines));
        queue_->done[place] = (begin >> 8) + bus_->latency_ticks;
      }
    }
  }
  void Retire(std::uint64_t now) {
    for (; queue_->count > 0 && queue_->done[queue_->oldest] <= now; --queue_->count)
      queue_->oldest = (queue_->oldest + 1) % EmulationSpec::kMostLines;
  }
  /// When the last outstanding one of these lines arrives; 0: none is outstanding.
  std::uint64_t Arrival(const Lines& lines) const {
    for (std::uint32_t i = queue_->count; i > 0; --i) {
      const std::size_t place = (queue_->oldest + i - 1) % EmulationSpec::kMostLines;
      if (queue_->line[place] - lines.first < lines.end - lines.first) return queue_->done[place];
    }
    return 0;
  }
  std::uint64_t WaitUntil(std::uint64_t tick) {
    const std::uint64_t now = Now();
    if (now >= tick) return now;
    ticks_waited_ += tick - now;
    if (tick - now > bus_->spin_ticks) clock_.SpinUntil(bus_->origin + tick - bus_->spin_ticks);
    return tick;
  }

  EmulatedBus* bus_;
  Clock clock_;
  FetchedLines fetched_;
  OutstandingLines own_;
  OutstandingLines* queue_;
  std::uint64_t lines_fetched_ = 0, ticks_waited_ = 0;
};

class EmulatedLines : public BasicEmulatedLines<TickClock> {
 public:
  using BasicEmulatedLines::BasicEmulatedLines;
};

}  // namespace hmann
