#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hmann/counters.h"
#include "index/search/placed_index.h"
#include "index/search/slow_memory.h"

namespace hmann {

/// The cache layer: copies of slow-memory records that the index's cache holds. Without a
/// cache it has none. With a dynamic one it is the paper's migration: a record that
/// searches meet again is fetched whole during a search, and copied after that.
class CachedRecords {
 public:
  /// `slots`: records that can be requested at once. Counts cache_hits. All arguments
  /// must outlive it.
  CachedRecords(const PlacedIndex& index, std::size_t slots, SlowMemory& memory, Counters& counts)
      : index_(index),
        memory_(memory),
        counts_(counts),
        record_bytes_(index.records.MostUnitBytes()),
        copies_(index.cache == nullptr ? 0 : slots * record_bytes_) {}

  /// A record that contains the part, valid until the slot's next call; nullptr: it is
  /// not in the cache.
  const std::byte* Find(NodeId id, RecordPart part, std::size_t slot) {
    if (index_.cache == nullptr) return nullptr;
    std::byte* copy = copies_.data() + slot * record_bytes_;
    const auto [row, tail] = index_.Extents(id, part);
    // The cache has a record's parts one after another.
    const std::uint32_t gap = index_.records.LinksOffset(id) - index_.RowBytes(id);
    if (row.bytes > 0 && !index_.cache->Read(id, 0, std::span(copy, row.bytes))) return nullptr;
    if (tail.bytes > 0 &&
        !index_.cache->Read(id, tail.offset - gap, std::span(copy + tail.offset, tail.bytes)))
      return nullptr;
    ++counts_.cache_hits;
    return copy;
  }
  /// Starts a query.
  void Begin() { coming_.clear(); }
  /// A record was read that the cache does not hold. Fetches the rest of it if the cache
  /// wants it, and demand need not wait for that.
  void Missed(NodeId id) {
    if (index_.cache == nullptr || coming_.size() == kMostComing || !index_.cache->Wants(id) ||
        !memory_.HasRoom())
      return;
    index_.ForBytes(id, RecordPart::kRecord, [this](auto bytes) { memory_.Fetch(bytes); });
    coming_.push_back(id);
  }
  /// Copies the records that have come.
  void Settle() {
    std::erase_if(coming_, [this](NodeId id) {
      bool here = true;
      index_.ForBytes(id, RecordPart::kRecord,
                      [&](auto bytes) { here = here && memory_.Arrived(bytes); });
      if (!here) return false;
      whole_.resize(index_.MostRecordBytes());
      index_.CopyRecord(id, index_.Record(id), whole_.data());
      index_.cache->Offer(id, whole_.data());
      return true;
    });
  }

 private:
  static constexpr std::size_t kMostComing = 64;  ///< a guess

  const PlacedIndex& index_;
  SlowMemory& memory_;
  Counters& counts_;
  std::size_t record_bytes_;
  std::vector<std::byte> copies_;  ///< one record per slot, its parts where they lie in L0
  std::vector<std::byte> whole_;   ///< scratch
  std::vector<NodeId> coming_;     ///< fetched whole for the cache, not copied yet
};

}  // namespace hmann
