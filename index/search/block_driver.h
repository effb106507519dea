#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "hmann/block_reader.h"
#include "index/search/block_frames.h"
#include "index/search/block_queue.h"
#include "index/search/driver.h"
#include "index/search/query.h"

namespace hmann {

/// Drives queries on an index whose L0 lies on a block tier. Several are in flight, so
/// that the thread computes for one while the device reads for the others.
class BlockDriver : public Driver {
 public:
  /// `index` must outlive the driver.
  explicit BlockDriver(const PlacedIndex& index) : index_(index) {}
  absl::Status Run(const QueryBatch& batch) override;
  absl::Status Read(const RecordBatch& batch) override;

 private:
  /// What a walk, or a part of a multi-start search, waits for.
  struct Reads {
    std::vector<std::uint32_t> places;  ///< of what it wants, as far as it was asked for
    std::uint32_t here = 0;             ///< of these, the first so many are known to be here
    bool waited = false;                ///< at this step
    std::uint64_t rounds = 0;           ///< steps that had to wait
  };
  /// A query on its way and the frames that it reads into.
  struct Slot final : ReadsAhead {
    Slot(const PlacedIndex& index, BlockReader* reader, BlockQueue* queue, std::uint32_t number,
         std::uint32_t frames_each)
        : query(index),
          frames(index, reader, queue, number, number * frames_each, frames_each),
          queue(queue) {}
    void Expect(std::span<const NodeId> ids) override;
    Query query;
    BlockFrames frames;
    BlockQueue* const queue;
    std::uint32_t spare = 0;  ///< frames that reads ahead leave free
    bool busy = false;
    bool moved = false;                     ///< a read that it waits for was done
    std::size_t which = 0;                  ///< number of its query
    StopCheck::Clock::time_point cut;       ///< when its budget is spent
    std::array<Reads, kBeamsAtOnce> reads;  ///< of its walk, or of each part of it
    std::vector<const std::byte*> records;  ///< scratch
  };

  /// A device that answers nothing for this long is called stalled.
  static constexpr std::chrono::seconds kStallLimit{30};
  /// Candidates whose links are fetched ahead, in L1 and at each step of L0.
  static constexpr std::uint32_t kUpcoming = 4;

  static std::uint32_t MinFrames(const PlacedIndex& index, const Dials& dials);
  absl::Status Prepare(std::uint32_t in_flight, const Dials& dials);
  void Start(Slot& slot, const QueryBatch& batch, std::size_t which);
  /// As far as it gets without waiting.
  void Advance(Slot& slot, const QueryBatch& batch);
  /// Asks for what the walk wants. False: something is still under way.
  template <Walk W>
  bool Fetch(Slot& slot, Reads& reads, const W& walk, const Dials& dials);
  /// A step of the walk. False: something is still under way.
  template <Walk W>
  bool Step(Slot& slot, Reads& reads, W& walk, const Dials& dials);
  /// As far as the walk at work gets without waiting, at most one step of it, or as many
  /// of its parts as can go. False: it has to wait.
  bool StepWalk(Slot& slot, const Dials& dials);
  void FetchAheadOfL0(Slot& slot, const Dials& dials);
  /// What it waited for last is not here yet.
  static bool StillWaits(const Slot& slot, const Reads& reads);
  static void Release(Slot& slot, Reads& reads);
  static void CutShort(Slot& slot);
  void Finish(Slot& slot, const QueryBatch& batch, const absl::Status& status);
  absl::Status WaitForReads(const QueryBatch& batch);
  /// Until a read is done, or `until`; done_ becomes those that are. Errors: the ring's;
  /// DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE of a device that has stalled.
  absl::Status WaitUntil(StopCheck::Clock::time_point until, const SearchLimits& limits);
  /// Of Read: until `enough`, or an error of a read that is waited for.
  template <typename Enough>
  absl::Status WaitForFrames(const Enough& enough, const SearchLimits& limits);

  const PlacedIndex& index_;
  std::unique_ptr<BlockReader> reader_;
  std::unique_ptr<BlockQueue> queue_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<BlockDone> done_;
  StopCheck::Clock::time_point last_progress_;
  std::size_t finished_ = 0;  ///< queries of this batch
  Answer answer_;
  VisitedSet read_;
};

}  // namespace hmann
