#pragma once

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
        record_bytes_(index.MostRecordBytes()),
        copies_(index.cache == nullptr ? 0 : slots * record_bytes_) {}

  /// A record that contains the part, valid until the slot's next call; nullptr: it is
  /// not in the cache.
  const std::byte* Find(NodeId id, RecordPart part, std::size_t slot) {
    if (index_.cache == nullptr) return nullptr;
    std::byte* copy = copies_.data() + slot * record_bytes_;
    const RecordExtent extent = index_.Extent(id, part);
    if (!index_.cache->Read(id, extent.offset, std::span(copy + extent.offset, extent.bytes)))
      return nullptr;
    ++counts_.cache_hits;
    return copy;
  }
  /// Whether the cache accepts offers of records that it does not hold.
  bool Takes() const {
    return index_.cache != nullptr && index_.cache->policy() == CachePolicy::kDynamic;
  }
  void Offer(NodeId id) { index_.cache->Offer(id, index_.Record(id)); }

 private:
  const PlacedIndex& index_;
  Counters& counts_;
  std::size_t record_bytes_;
  std::vector<std::byte> copies_;  ///< one record per slot
};

}  // namespace hmann
