#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "hmann/counters.h"
#include "index/search/block_queue.h"
#include "index/search/id_map.h"
#include "index/search/placed_index.h"

namespace hmann {

/// The units (see RecordLayout) that one query on a block tier has read or is reading. It
/// tracks which frame holds which unit, who still needs it, and which read a tag belongs
/// to. It does not know about queries.
///
/// Units stay until the query ends, because a record is wanted twice (vector, then
/// links). When frames run out, the oldest unpinned one is evicted, and its unit is read
/// again if needed.
class BlockFrames {
 public:
  /// Uses the reader's frames [first_frame, first_frame + frames). `number`: below 2^16,
  /// part of their tags.
  BlockFrames(const PlacedIndex& index, BlockReader* reader, BlockQueue* queue,
              std::uint32_t number, std::uint32_t first_frame, std::uint32_t frames)
      : index_(index),
        reader_(reader),
        queue_(queue),
        number_(number),
        first_frame_(first_frame),
        entries_(frames) {
    for (std::uint32_t place = frames; place-- > 0;) free_.push_back(place);
  }

  static std::uint32_t NumberOf(std::uint64_t tag) { return static_cast<std::uint32_t>(tag >> 48); }

  /// Frames that are not held by reads in flight of an earlier query.
  std::uint32_t Usable() const { return static_cast<std::uint32_t>(entries_.size()) - under_way_; }
  /// Starts a query: all usable frames are free.
  void Clear();

  /// Pins the unit of a record and requests it if it is not here. There must be an
  /// unpinned frame. Returns its place.
  std::uint32_t Pin(NodeId id);
  void Unpin(std::uint32_t place);
  /// Pinned places whose reads are in flight.
  std::uint32_t pending() const { return pending_; }
  bool IsHere(std::uint32_t place) const { return entries_[place].state == State::kHere; }
  bool HasRecord(NodeId id) const;
  /// The record in `place`, which must be here.
  const std::byte* Record(NodeId id, std::uint32_t place) const;
  /// Requests a record that will probably be wanted, if more than `spare` frames are
  /// free.
  void FetchAhead(NodeId id, std::uint32_t spare);
  /// Requests records, one read for those that lie together in a frame's bytes, if they
  /// have frames enough with `spare` more, and there is no cache. Nodes of a cell are
  /// near in the file, and often wanted at once.
  void FetchTogether(std::span<const NodeId> ids, std::uint32_t spare, bool ahead);

  /// Handles a finished read. Errors: the device's, if the unit is pinned.
  absl::Status HandleDone(const BlockDone& done);
  /// Cancels the reads that are still waiting. A read in flight keeps its frame until it
  /// is done, even if the next query has begun by then.
  void Abandon();

  /// Counters of the reads since Clear.
  const Counters& counters() const { return io_; }

 private:
  enum class State : std::uint8_t { kFree, kUnderWay, kHere };
  struct Entry {
    std::uint32_t unit = 0, last = 0;  ///< the units that it holds
    std::uint32_t bytes = 0;           ///< to read
    std::uint64_t begin = 0;           ///< in the section, of what the frame holds
    std::uint32_t pins = 0;
    State state = State::kFree;
    bool ahead = false;  ///< was fetched ahead and has not been wanted since
  };

  std::uint64_t Tag(std::uint32_t place) const {
    return std::uint64_t{number_} << 48 | std::uint64_t{generation_} << 24 | place;
  }
  /// Returns IdMap::kAbsent if the read is ahead and no frame is free.
  std::uint32_t Acquire(NodeId id, bool ahead);
  std::uint32_t TakeFrame(bool ahead);
  /// Reads these units, one if there is a cache.
  std::uint32_t Start(std::uint32_t unit, std::uint32_t last, bool ahead);
  /// What a read of these units takes.
  RecordLayout::Extent ExtentOf(std::uint32_t unit, std::uint32_t last) const;
  void Free(std::uint32_t place);
  void EraseUnits(std::uint32_t place);
  bool ReadCache(Entry& entry, std::byte* frame) const;
  void OfferToCache(const Entry& entry, const std::byte* frame) const;

  const PlacedIndex& index_;
  BlockReader* const reader_;
  BlockQueue* const queue_;
  const std::uint32_t number_, first_frame_;
  std::uint32_t generation_ = 0;       ///< of the query; 24 bits
  std::vector<Entry> entries_;         ///< place p has frame first_frame_ + p
  std::vector<std::uint32_t> free_;    ///< places whose state is kFree
  std::vector<std::uint32_t> taken_;   ///< places that this query has taken; some may be free again
  std::uint32_t under_way_ = 0;        ///< entries, also of earlier queries
  IdMap units_;                        ///< unit to place
  std::vector<std::uint32_t> absent_;  ///< scratch: units
  std::uint32_t clock_ = 0;            ///< the next place to evict
  std::uint32_t pending_ = 0;
  Counters io_;
};

}  // namespace hmann
