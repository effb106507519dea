#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hmann/counters.h"
#include "index/search/placed_index.h"

namespace hmann {

/// The cache layer: copies of slow-memory records that the index's cache holds. Without a
/// cache it has none.
class CachedRecords {
 public:
  /// `slots`: records that can be requested at once. Counts cache_hits.
  CachedRecords(const PlacedIndex& index, std::size_t slots, Counters& counts)
      : index_(index),
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
  /// Whether the cache accepts offers of records that it does not hold.
  bool Takes() const {
    return index_.cache != nullptr && index_.cache->policy() == CachePolicy::kDynamic;
  }
  void Offer(NodeId id) {
    whole_.resize(index_.MostRecordBytes());
    index_.CopyRecord(id, index_.Record(id), whole_.data());
    index_.cache->Offer(id, whole_.data());
  }

 private:
  const PlacedIndex& index_;
  Counters& counts_;
  std::size_t record_bytes_;
  std::vector<std::byte> copies_;  ///< one record per slot, its parts where they lie in L0
  std::vector<std::byte> whole_;   ///< scratch
};

}  // namespace hmann
