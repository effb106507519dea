#pragma once

#include <cstddef>
#include <span>

#include "hmann/resolved_params.h"
#include "index/base/prefetch.h"
#include "index/search/page_ahead.h"
#include "index/search/placed_index.h"

namespace hmann {

/// How an executor reaches the records of an addressable tier: AskAll starts fetching a
/// part of some records, and Await waits for it.

/// What the accesses of one thread share.
struct ThreadShare {
  explicit ThreadShare(const PlacedIndex& index) : pages(index) {}
  OutstandingLines lines;  ///< of an emulated tier
  PageAhead pages;
};

/// Plain memory: AskAll is a pointer and prefetch instructions, and Await does nothing.
class PlainAccess {
 public:
  static constexpr bool kWatchesL1 = false;
  PlainAccess(const PlacedIndex& index, ThreadShare& shared)
      : index_(index), pages_(shared.pages), row_bytes_(index.RowPrefetchBytes()) {}

  void Begin(Prefetch) {}
  /// Sets records[i] to the record of ids[i].
  void AskAll(std::span<const NodeId> ids, RecordPart part, const std::byte** records) {
    if (pages_.on()) [[unlikely]] {
      for (const NodeId id : ids) AskPages(id, part);
    }
    if (part == RecordPart::kRow) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        records[i] = index_.Row(ids[i]);
        PrefetchLines(records[i], row_bytes_);
      }
      return;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      records[i] = index_.Record(ids[i]);
      for (const RecordExtent& extent : index_.Extents(ids[i], part))
        PrefetchUnaligned(records[i] + extent.offset, extent.bytes);
    }
  }
  /// The links of `id` will probably be wanted next.
  void Hint(NodeId id) {
    if (pages_.on()) [[unlikely]]
      AskPages(id, RecordPart::kLinks);
    PrefetchUnaligned(index_.l0 + index_.records.ListOffset(id), index_.records.list_bytes);
  }
  void Send() {
    if (pages_.on()) [[unlikely]]
      pages_.Send();
  }
  void Await(std::span<const NodeId>, RecordPart) {}

 private:
  void AskPages(NodeId id, RecordPart part) {
    index_.ForBytes(id, part, [this](std::span<const std::byte> bytes) { pages_.Add(bytes); });
  }

  const PlacedIndex& index_;
  PageAhead& pages_;
  std::size_t row_bytes_;  ///< to prefetch
};

}  // namespace hmann
