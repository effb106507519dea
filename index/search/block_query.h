#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "index/dials/answer.h"
#include "index/dials/counters.h"
#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/best_first_walk.h"
#include "index/search/block_queue.h"
#include "index/search/drivers.h"
#include "index/search/gated_walk.h"
#include "index/search/id_map.h"
#include "index/search/placed_index.h"

namespace hmann {

/// One query that reads L0 from a block tier: its walks, the blocks that they have read, and what each of them waits for. Advances
/// whenever one of its reads is done; never waits itself. Keeps its memory between queries.
///
/// Blocks stay until the query ends, since a record is wanted twice (vector, then links); where frames run out, the oldest that no walk
/// needs at its present step gives way and is read again if need be.
class BlockQuery {
 public:
  /// The frames [first_frame, first_frame + frames) of the reader are this query's, at least MinFrames. `number`: below 2^16, in its tags.
  BlockQuery(const PlacedIndex& index, BlockReader* reader, BlockQueue* queue, std::uint32_t number, std::uint32_t first_frame,
             std::uint32_t frames);

  static std::uint32_t MinFrames(const PlacedIndex& index, const Dials& dials);
  /// Bytes of a frame: a block, or the blocks of one long record.
  static std::uint32_t FrameBytes(const PlacedIndex& index);
  static std::uint32_t NumberOf(std::uint64_t tag) { return static_cast<std::uint32_t>(tag >> 48); }

  bool busy() const { return phase_ != Phase::kIdle && phase_ != Phase::kFinished; }
  bool finished() const { return phase_ == Phase::kFinished; }
  /// Not busy, and enough frames are not held by reads of an earlier query that are still under way.
  bool CanStart(const Dials& dials) const;

  /// Searches the upper layers, then goes on as far as it gets without waiting. `limits` must outlive the query.
  void Start(std::size_t which, const void* query, const Dials& dials, const SearchLimits& limits);
  void HandleDone(const BlockDone& done);
  /// When the query is to end with what it has: CutShort ends it so, with what has been read, and reads no more. False: that is nothing.
  StopCheck::TimePoint cut() const { return cut_; }
  bool CutShort();
  /// Ends a query that is busy.
  void Fail(const absl::Status& status) { Finish(status); }

  /// Of a finished query. `counters`, when given, is added to.
  absl::Status TakeAnswer(std::size_t* which, Answer* out, Counters* counters);

 private:
  enum class Phase { kIdle, kWalks, kRest, kLabels, kFinished };
  enum class State : std::uint8_t { kFree, kUnderWay, kHere };
  /// What a frame holds.
  struct Entry {
    std::uint32_t unit = 0;  ///< first block
    std::uint32_t bytes = 0;
    std::uint32_t pins = 0;     ///< records in it that lanes need at their present step
    std::uint32_t waiters = 0;  ///< a bit for each lane
    State state = State::kFree;
    bool ahead = false;  ///< was fetched ahead and not wanted since
  };
  /// A walk on its way.
  struct Lane {
    LayerScratch scratch;
    BestFirstWalk walk;
    std::vector<std::uint32_t> entries;  ///< [i]: where the record of wanted number i is
    std::uint32_t asked = 0;             ///< wanted records that have an entry
    std::uint32_t pending = 0;           ///< entries that have not come
    bool waited = false;                 ///< at this step
  };
  /// Watches L1 for the links that L0 will begin with.
  struct Ahead {
    static constexpr bool kManaged = true;
    BlockQuery* query;
    void Stepped(const Beam& beam, std::uint32_t window);
  };

  /// Candidates whose links are fetched ahead, in L1 and at each step of L0.
  static constexpr std::uint32_t kUpcoming = 4;

  std::uint64_t Tag(std::uint32_t entry) const { return std::uint64_t{number_} << 48 | std::uint64_t{generation_} << 24 | entry; }
  const std::byte* Record(NodeId id, std::uint32_t entry) const;
  bool gated() const { return dials_.walk == WalkKind::kGated && phase_ == Phase::kWalks; }
  std::span<const NodeId> Wanted(const Lane& lane) const;
  static std::uint32_t UnitOf(const PlacedIndex& index, NodeId id) {
    return static_cast<std::uint32_t>(index.records.Offset(id) / kBlockBytes);
  }

  void Begin();
  /// The entry of the record's blocks, which are asked for if they are not here. kAbsent: ahead, and there is no frame to spare.
  std::uint32_t Acquire(NodeId id, bool ahead, std::uint32_t rank);
  std::uint32_t TakeFrame(bool ahead);
  bool ReadCache(const Entry& entry, std::byte* frame);
  void OfferToCache(const Entry& entry, const std::byte* frame);
  void FetchAhead(NodeId id, std::uint32_t rank);

  void OpenWalks();
  void AskFor(Lane& lane);
  void Absorb(Lane& lane);
  void Advance(Lane& lane);
  /// False: the lane has nothing more to do.
  bool NextWalk(Lane& lane);
  /// The lane wants nothing any more.
  void Release(Lane& lane);
  bool IsHere(NodeId id) const;
  void NextPhase();
  void Finish(absl::Status status);

  const PlacedIndex& index_;
  BlockReader* const reader_;
  BlockQueue* const queue_;
  const std::uint32_t number_;
  const std::uint32_t first_frame_;
  std::uint32_t generation_ = 0;  ///< 24 bits

  std::vector<Entry> entries_;       ///< entry e has frame first_frame_ + e
  std::vector<std::uint32_t> free_;  ///< entries
  IdMap units_;                      ///< unit to entry
  std::uint32_t clock_ = 0;          ///< the next entry to give way

  std::size_t which_ = 0;
  std::vector<std::byte> query_;  ///< in stored form
  Dials dials_;
  const SearchLimits* limits_ = nullptr;
  std::optional<StopCheck> stop_;
  StopCheck::TimePoint cut_;
  bool cut_short_ = false;
  Phase phase_ = Phase::kIdle;
  absl::Status status_;
  LayerScratch scratch_;  ///< of the upper layers and the pool; holds the answer in the end
  std::array<Lane, kWalksInFlight> lanes_;
  GatedWalk gated_;              ///< of lane 0
  std::uint32_t active_ = 0;     ///< lanes
  std::uint32_t next_beam_ = 0;  ///< candidate of W that no lane has taken yet
  std::uint32_t beams_ = 0;
  Beam results_;
  std::vector<NodeId> label_ids_;
  std::size_t labels_read_ = 0;
  std::vector<std::uint64_t> labels_;  ///< of label_ids_
  RecordPointers records_;
  WalkCounters counters_;
  Counters io_;  ///< what the walks do not count
  VisitedSet distinct_;
};

}  // namespace hmann
