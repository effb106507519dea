#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/dials/counters.h"
#include "index/dials/dials.h"
#include "index/graph/beam.h"
#include "index/graph/visited.h"
#include "index/search/migration_helpers.h"
#include "index/search/placed_index.h"
#include "index/tiers/emulation.h"

namespace hmann {

/// How a driver reaches records of an addressable tier: Ask begins the way of a record's part to the CPU, Await ends it.

/// Plain memory: Ask is a pointer and prefetch instructions, Await is nothing.
class PlainAccess {
 public:
  static constexpr bool kWatchesL1 = false;
  explicit PlainAccess(const PlacedIndex& index) : index_(index), row_bytes_(PrefetchBytes(index.kernels)) {}

  void Begin(Prefetch) {}
  /// The record of `id`. `slot`: which of the records that are asked for at once it is.
  const std::byte* Ask(NodeId id, RecordPart part, std::size_t /*slot*/) {
    const std::byte* record = index_.Record(id);
    const RecordExtent extent = index_.Extent(id, part);
    PrefetchLines(record + extent.offset, part == RecordPart::kRow ? row_bytes_ : extent.bytes);
    return record;
  }
  /// The links of `id` will probably be asked for next.
  void Hint(NodeId id) { PrefetchLines(index_.Record(id) + index_.records.LinksOffset(id), index_.records.max_links * sizeof(NodeId)); }
  void Await(std::span<const NodeId>, RecordPart, std::size_t /*first_slot*/) {}

 private:
  const PlacedIndex& index_;
  std::size_t row_bytes_;
};

/// Everything that can be switched: prefetching off or early, helper threads that copy, a cache of records, an emulated tier that must be
/// told of every touch. Keeps its memory between queries; one per searching thread.
class ManagedAccess {
 public:
  static constexpr bool kWatchesL1 = true;
  explicit ManagedAccess(const PlacedIndex& index);
  ~ManagedAccess();
  ManagedAccess(const ManagedAccess&) = delete;

  /// A new query.
  void Begin(Prefetch prefetch);
  const std::byte* Ask(NodeId id, RecordPart part, std::size_t slot);
  void Hint(NodeId id);
  /// Waits for what Ask(ids[i], part, first_slot + i) asked for.
  void Await(std::span<const NodeId> ids, RecordPart part, std::size_t first_slot);

  /// L1's beam has changed: fetches ahead the L0 links of its first `window` candidates, nearest first, and what these link to once they
  /// are here. No record twice, at most kAheadBytes a query, never while demand would have to wait for it.
  void Stepped(const Beam& beam, std::uint32_t window);
  /// What this query had fetched ahead and found in the cache.
  void AddCounts(Counters& counters) const;

 private:
  static constexpr std::uint64_t kAheadBytes = 64 << 10;
  /// Candidates of L1 that are looked at after each of its steps.
  static constexpr std::uint32_t kAheadWindow = 8;

  /// Node numbers have 31 bits, which leaves one for the part: links or row.
  static std::uint32_t AheadKey(NodeId id, RecordPart part) { return id << 1 | (part == RecordPart::kRow ? 1u : 0u); }

  std::span<const std::byte> Bytes(NodeId id, RecordPart part) const {
    const RecordExtent extent = index_.Extent(id, part);
    return {index_.Record(id) + extent.offset, extent.bytes};
  }
  void Fetch(std::span<const std::byte> bytes);
  bool FetchAhead(NodeId id, RecordPart part);
  const NodeId* LinksIfHere(NodeId id);
  bool ReadCache(NodeId id, RecordPart part, std::byte* buffer);
  void NoteUse(NodeId id, RecordPart part);

  const PlacedIndex& index_;
  std::optional<EmulatedLines> lines_;
  std::optional<MigrationSpace> space_;
  Prefetch prefetch_ = Prefetch::kAhead;
  VisitedSet ahead_;     ///< AheadKey of what was fetched ahead, each once
  VisitedSet followed_;  ///< candidates whose neighbours were fetched ahead
  VisitedSet used_;
  std::uint64_t ahead_bytes_ = 0;
  Counters counts_;  ///< migrated, migrated_used, migrated_late, cache_hits
  std::size_t record_bytes_;
  std::vector<std::byte> copies_;  ///< a record for each slot
  std::vector<char> copied_;       ///< [slot]: Ask gave a copy in fast memory
};

}  // namespace hmann
