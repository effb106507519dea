#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hmann/counters.h"
#include "index/search/placed_index.h"

namespace hmann {

/// The cache layer: records of slow memory that the index's cache holds, copied out of
/// it. Without a cache it has none.
class CachedRecords {
 public:
  /// `slots`: records that can be asked for at once. Counts cache_hits.
  CachedRecords(const PlacedIndex& index, std::size_t slots, Counters& counts)
      : index_(index),
        counts_(counts),
        record_bytes_(index.MostRecordBytes()),
        copies_(index.cache == nullptr ? 0 : slots * record_bytes_) {}

  /// A record in which the part is there, until the slot's next; nullptr: the cache does
  /// not have it.
  const std::byte* Find(NodeId id, RecordPart part, std::size_t slot) {
    if (index_.cache == nullptr) return nullptr;
    std::byte* copy = copies_.data() + slot * record_bytes_;
    const RecordExtent extent = index_.Extent(id, part);
    if (!index_.cache->Read(id, extent.offset, std::span(copy + extent.offset, extent.bytes)))
      return nullptr;
    ++counts_.cache_hits;
    return copy;
  }
  /// Whether the cache wants to be offered what it does not have.
  bool Takes() const {
    return index_.cache != nullptr && index_.cache->policy() == CachePolicy::kDynamic;
  }
  void Offer(NodeId id) { index_.cache->Offer(id, index_.Record(id)); }

 private:
  const PlacedIndex& index_;
  Counters& counts_;
  std::size_t record_bytes_;
  std::vector<std::byte> copies_;  ///< a record for each slot
};

}  // namespace hmann
