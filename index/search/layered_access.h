#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hmann/counters.h"
#include "hmann/resolved_params.h"
#include "index/search/access.h"
#include "index/search/cached_records.h"
#include "index/search/fetch_ahead.h"
#include "index/search/placed_index.h"
#include "index/search/slow_memory.h"

namespace hmann {

/// PlainAccess with every layer that an index may have: cached records, then memory that
/// is slow or emulated as slow. Keeps its memory between queries; one per searching
/// thread.
class LayeredAccess {
 public:
  static constexpr bool kWatchesL1 = true;
  /// `shared`: by all accesses that take turns in one thread.
  LayeredAccess(const PlacedIndex& index, ThreadShare& shared)
      : index_(index),
        memory_(index.emulated, &shared.lines),
        pages_(shared.pages),
        ahead_(index, memory_, counts_),
        fast_(std::max<std::size_t>(std::size_t{kMaxGraphWidth} * index.records.max_links,
                                    kMaxBeamWidth)),
        cached_(index, fast_.size(), memory_, counts_) {}
  LayeredAccess(const LayeredAccess&) = delete;

  /// Starts a query.
  void Begin(Prefetch prefetch) {
    prefetch_ = prefetch;
    counts_ = Counters();
    memory_.Begin();
    cached_.Begin();
    ahead_.Begin(prefetch);
  }

  void AskAll(std::span<const NodeId> ids, RecordPart part, const std::byte** records) {
    for (std::size_t i = 0; i < ids.size(); ++i) records[i] = Call(ids[i], part, i);
  }
  void Hint(NodeId id) { Fetch(id, RecordPart::kLinks); }

  void Send() {
    if (pages_.on()) pages_.Send();
  }

  /// Waits for what AskAll(ids, part) requested.
  void Await(std::span<const NodeId> ids, RecordPart part) {
    cached_.Settle();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (fast_[i] != 0) continue;
      index_.ForBytes(ids[i], part, [this](auto bytes) { memory_.Use(bytes); });
      cached_.Missed(ids[i]);
    }
  }

  /// See FetchAhead.
  void Stepped(const Beam& beam, std::uint32_t window) { ahead_.Stepped(beam, window); }
  /// Adds what this query fetched ahead and found in the cache.
  void AddCounts(Counters& counters) const { counters += counts_; }

 private:
  const std::byte* Call(NodeId id, RecordPart part, std::size_t slot) {
    ahead_.CountUse(id, part);
    const std::byte* copy = cached_.Find(id, part, slot);
    fast_[slot] = copy != nullptr ? 1 : 0;
    if (copy != nullptr) return copy;
    Fetch(id, part);
    return index_.Record(id);
  }
  void Fetch(NodeId id, RecordPart part) {
    if (prefetch_ == Prefetch::kOff) return;
    index_.ForBytes(id, part, [&](std::span<const std::byte> bytes) {
      if (pages_.on()) pages_.Add(bytes);
      memory_.Fetch(bytes);
    });
  }

  const PlacedIndex& index_;
  Counters counts_;
  SlowMemory memory_;
  PageAhead& pages_;
  FetchAhead ahead_;
  std::vector<char> fast_;  ///< [slot]: Ask gave a copy in fast memory
  CachedRecords cached_;
  Prefetch prefetch_ = Prefetch::kAhead;
};

}  // namespace hmann
