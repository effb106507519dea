#pragma once

#include <cstddef>
#include <span>

#include "index/base/prefetch.h"
#include "index/dials/dials.h"
#include "index/search/placed_index.h"

namespace hmann {

/// How a driver reaches records of an addressable tier: Ask begins the way of a record's
/// part to the CPU, Await ends it.

/// Plain memory: Ask is a pointer and prefetch instructions, Await is nothing.
class PlainAccess {
 public:
  static constexpr bool kWatchesL1 = false;
  explicit PlainAccess(const PlacedIndex& index, OutstandingLines* = nullptr)
      : index_(index), row_bytes_(PrefetchBytes(index.kernels)) {}

  void Begin(Prefetch) {}
  /// The record of `id`. `slot`: which of the records that are asked for at once it is.
  const std::byte* Ask(NodeId id, RecordPart part, std::size_t /*slot*/) {
    const std::byte* record = index_.Record(id);
    const RecordExtent extent = index_.Extent(id, part);
    PrefetchLines(record + extent.offset, part == RecordPart::kRow ? row_bytes_ : extent.bytes);
    return record;
  }
  /// The links of `id` will probably be asked for next.
  void Hint(NodeId id) {
    PrefetchLines(index_.Record(id) + index_.records.LinksOffset(id),
                  index_.records.max_links * sizeof(NodeId));
  }
  void Await(std::span<const NodeId>, RecordPart) {}

 private:
  const PlacedIndex& index_;
  std::size_t row_bytes_;
};

}  // namespace hmann
