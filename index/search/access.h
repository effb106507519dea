#pragma once

#include <cstddef>
#include <span>

#include "hmann/resolved_params.h"
#include "index/base/prefetch.h"
#include "index/search/placed_index.h"

namespace hmann {

/// How an executor reaches the records of an addressable tier: AskAll starts fetching a
/// part of some records, and Await waits for it.

/// Plain memory: AskAll is a pointer and prefetch instructions, and Await does nothing.
class PlainAccess {
 public:
  static constexpr bool kWatchesL1 = false;
  explicit PlainAccess(const PlacedIndex& index, OutstandingLines* = nullptr)
      : index_(index), row_bytes_(static_cast<std::uint32_t>(PrefetchBytes(index.kernels))) {}

  void Begin(Prefetch) {}
  /// Sets records[i] to the record of ids[i].
  void AskAll(std::span<const NodeId> ids, RecordPart part, const std::byte** records) {
    const NodeId n1 = index_.n1();
    RecordExtent extents[2] = {index_.Extent(0, part), index_.Extent(n1, part)};
    if (part == RecordPart::kRow) extents[1].bytes = row_bytes_;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      records[i] = index_.Record(ids[i]);
      const RecordExtent& extent = extents[ids[i] >= n1];
      PrefetchLines(records[i] + extent.offset, extent.bytes);
    }
  }
  /// The links of `id` will probably be wanted next.
  void Hint(NodeId id) {
    PrefetchLines(index_.Record(id) + index_.records.LinksOffset(id),
                  index_.records.max_links * sizeof(NodeId));
  }
  void Await(std::span<const NodeId>, RecordPart) {}

 private:
  const PlacedIndex& index_;
  std::uint32_t row_bytes_;
};

}  // namespace hmann
