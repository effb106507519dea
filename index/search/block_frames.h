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

/// The blocks that one query of a block tier has read and is reading: which frame holds
/// which, who still needs it, and which read a tag is of. It knows nothing of queries.
///
/// Blocks stay until the query ends, since a record is wanted twice (vector, then links);
/// where frames run out, the oldest that is not pinned gives way and is read again if
/// need be.
class BlockFrames {
 public:
  /// The frames [first_frame, first_frame + frames) of the reader are these. `number`:
  /// below 2^16, in their tags.
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

  /// Bytes of a frame: a block, or the blocks of one long record.
  static std::uint32_t FrameBytes(const PlacedIndex& index);
  static std::uint32_t NumberOf(std::uint64_t tag) { return static_cast<std::uint32_t>(tag >> 48); }

  /// Frames that are not held by reads of an earlier query which are still under way.
  std::uint32_t Usable() const { return static_cast<std::uint32_t>(entries_.size()) - under_way_; }
  /// Of a query that begins: all usable frames are free.
  void Clear();

  /// Pins the blocks of a record, which are asked for if they are not here; there must be
  /// a frame that is not pinned. Returns their place.
  std::uint32_t Pin(NodeId id);
  void Unpin(std::uint32_t place);
  /// Pinned places that are under way.
  std::uint32_t pending() const { return pending_; }
  bool IsHere(std::uint32_t place) const { return entries_[place].state == State::kHere; }
  bool HasRecord(NodeId id) const;
  /// Of a place that is here.
  const std::byte* Record(NodeId id, std::uint32_t place) const;
  /// Asks for a record that will probably be wanted as number `rank` from now, if more
  /// than `spare` frames are free.
  void FetchAhead(NodeId id, std::uint32_t rank, std::uint32_t spare);

  /// A read is done. Errors: the device's, where the blocks are pinned.
  absl::Status HandleDone(const BlockDone& done);
  /// What still waits for its turn is not read; what is under way keeps its frame until
  /// it is done, whoever has it then.
  void Abandon();

  /// What was read since Clear.
  const Counters& counters() const { return io_; }

 private:
  enum class State : std::uint8_t { kFree, kUnderWay, kHere };
  struct Entry {
    std::uint32_t unit = 0;  ///< first block
    std::uint32_t bytes = 0;
    std::uint32_t pins = 0;
    State state = State::kFree;
    bool ahead = false;  ///< was fetched ahead and not wanted since
  };

  std::uint64_t Tag(std::uint32_t place) const {
    return std::uint64_t{number_} << 48 | std::uint64_t{generation_} << 24 | place;
  }
  std::uint32_t UnitOf(NodeId id) const {
    return static_cast<std::uint32_t>(index_.records.Offset(id) / kBlockBytes);
  }
  /// IdMap::kAbsent: ahead, and there is no free frame.
  std::uint32_t Acquire(NodeId id, bool ahead, std::uint32_t rank);
  std::uint32_t TakeFrame(bool ahead);
  void Free(std::uint32_t place);
  bool ReadCache(const Entry& entry, std::byte* frame) const;
  void OfferToCache(const Entry& entry, const std::byte* frame) const;

  const PlacedIndex& index_;
  BlockReader* const reader_;
  BlockQueue* const queue_;
  const std::uint32_t number_, first_frame_;
  std::uint32_t generation_ = 0;     ///< 24 bits: of the query
  std::vector<Entry> entries_;       ///< place p has frame first_frame_ + p
  std::vector<std::uint32_t> free_;  ///< places whose state is kFree
  std::vector<std::uint32_t>
      taken_;  ///< places that this query has taken, some of them perhaps free again
  std::uint32_t under_way_ = 0;  ///< entries, of earlier queries too
  IdMap units_;                  ///< unit to place
  std::uint32_t clock_ = 0;      ///< the next place to give way
  std::uint32_t pending_ = 0;
  Counters io_;
};

}  // namespace hmann
