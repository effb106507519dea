#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "hmann/block_reader.h"
#include "index/search/block_frames.h"
#include "index/search/block_queue.h"
#include "index/search/executor.h"
#include "index/search/query.h"

namespace hmann {

/// Drives queries on an index whose L0 lies on a block tier. Several are in flight, so
/// that the thread computes for one while the device reads for the others.
class DiskExecutor : public Executor {
 public:
  /// `index` must outlive the executor.
  explicit DiskExecutor(const PlacedIndex& index) : index_(index) {}
  absl::Status Run(const QueryBatch& batch) override;
  absl::Status Read(const RecordBatch& batch) override;

 private:
  /// The reads that a traversal, or a part of a multi-start search, waits for.
  struct Reads {
    std::vector<std::uint32_t> places;  ///< of the records wanted and requested so far
    std::uint32_t here = 0;             ///< the first `here` places are known to be here
    bool waited = false;                ///< at this step
    std::uint64_t hops = 0;             ///< steps that had to wait
  };
  /// A query in flight and the frames that it reads into.
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
    std::vector<Reads> reads;               ///< of its traversal, or of each part of it
    std::vector<const std::byte*> records;  ///< scratch
  };

  /// A device that answers nothing for this long counts as stalled.
  static constexpr std::chrono::seconds kStallLimit{30};
  /// Candidates whose links are fetched ahead, in L1 and at each step of L0.
  static constexpr std::uint32_t kUpcoming = 4;

  static std::uint32_t MinFrames(const PlacedIndex& index, const ResolvedParams& params);
  absl::Status Prepare(std::uint32_t in_flight, const ResolvedParams& params);
  void Start(Slot& slot, const QueryBatch& batch, std::size_t which);
  /// Advances the query until it would have to wait.
  void Advance(Slot& slot, const QueryBatch& batch);
  /// Requests the records that the traversal wants. False: a read is still in flight.
  template <Traversal W>
  bool Fetch(Slot& slot, Reads& reads, const W& traversal, const ResolvedParams& params);
  /// Makes a step of the traversal. False: a read is still in flight.
  template <Traversal W>
  bool Step(Slot& slot, Reads& reads, W& traversal, const ResolvedParams& params);
  /// Makes at most one step of the current traversal, or steps as many of its parts as
  /// are ready. False: it has to wait.
  bool StepTraversal(Slot& slot, const ResolvedParams& params);
  void FetchAheadOfL0(Slot& slot, const ResolvedParams& params);
  /// The read that it last waited for is not here yet.
  static bool StillWaits(const Slot& slot, const Reads& reads);
  static void Release(Slot& slot, Reads& reads);
  static void CutShort(Slot& slot);
  void Finish(Slot& slot, const QueryBatch& batch, const absl::Status& status);
  absl::Status WaitForReads(const QueryBatch& batch);
  /// Waits until a read is done, or until `until`. Sets done_ to the reads that are done.
  /// Errors: the ring's; DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE if the device has
  /// stalled.
  absl::Status WaitUntil(StopCheck::Clock::time_point until, const SearchLimits& limits);
  /// For Read: waits until `enough`, or until a needed read fails.
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
