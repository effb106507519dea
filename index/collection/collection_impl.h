#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "hmann/build.h"
#include "hmann/collection.h"
#include "index/base/file_lock.h"
#include "index/collection/journal.h"
#include "index/collection/manifest.h"
#include "index/collection/merge_files.h"
#include "index/collection/moment.h"
#include "index/collection/pending_write.h"

namespace hmann {

/// A collection that is open. Writers queue; the first of them writes for all that wait
/// (one transaction), under `writing_`. Two threads work in the background: one inserts
/// new rows into graphs (delta.cc), one merges (merge.cc), under `writing_` where it
/// changes what is served. Readers take `now_`; where they ask for rows by label or for a
/// filter, they hold the lock of DeltaFacts for a moment.
class CollectionImpl final : public Collection {
 public:
  static absl::StatusOr<std::shared_ptr<CollectionImpl>> Open(const std::string& folder,
                                                              const OpenCollection& options,
                                                              Progress* progress);
  ~CollectionImpl() override;

  absl::StatusOr<Written> Write(const WriteBatch& batch) override;
  absl::StatusOr<Written> Delete(const Filter& filter, std::string_view operation) override;
  absl::StatusOr<Written> DeleteAll(std::string_view operation) override;
  absl::StatusOr<std::vector<std::string>> Names(
      std::span<const std::uint64_t> labels) const override;
  std::shared_ptr<const Moment> Now() const override { return now_.load(); }
  CollectionInfo info() const override;
  absl::Status Compact(Progress& progress, const std::atomic<bool>* cancelled) override;
  absl::StatusOr<std::uint64_t> Backup(const std::string& folder) override;
  absl::Status Verify(Progress& progress) const override;

 private:
  CollectionImpl(const std::string& folder, const OpenCollection& options)
      : folder_(folder), options_(options) {}

  // collection.cc
  absl::Status Lock();
  absl::Status Load(Progress* progress);
  absl::Status OpenSealed(Moment* moment, Progress* progress);
  /// Takes over the writes after the moment. Errors: RESOURCE_EXHAUSTED: the rest needs
  /// more memory than there is, and the moment is that of the writes before.
  absl::Status Replay(Moment* moment);
  /// Merges what was replayed, and replays more.
  absl::Status ReplayMore(Progress* progress);
  absl::Status ReadFields(Moment* moment) const;
  /// Takes over what another process has written since.
  absl::Status Refresh();
  void Follow();
  void RemoveOrphans();
  /// The last write, and those lost before it, as LOCK has them; none: 0.
  struct Record {
    std::uint64_t sequence = 0, lost = 0;
  };
  Record ReadRecord() const;
  void KeepRecord(std::uint64_t sequence, bool sync) const;
  void StartThreads();
  void StopThreads();

  /// Where the vector of a label is.
  struct Place {
    enum class In : std::uint8_t { kNowhere, kDelta, kSealed } in = In::kNowhere;
    std::uint64_t row = 0;  ///< of the delta, or the internal id
  };

  // write.cc
  absl::StatusOr<Written> Run(PendingWrite& write);
  void WriteGroup(std::span<PendingWrite* const> group);
  absl::Status Commit(std::span<PendingWrite* const> group);
  absl::Status Resolve(Moment& next, PendingWrite* write);
  absl::Status ResolveFilter(Moment& next, PendingWrite* write);
  absl::Status ResolveRepeat(PendingWrite* write);
  absl::Status ResolveUpdate(const Moment& next, const std::vector<AttributeField>& fields,
                             const Place& place, PendingWrite* write, std::size_t i);
  /// What a write takes until the next merge, counted before it takes it.
  struct Growth {
    std::uint64_t rows = 0, labels = 0, heap = 0, journal = 0;
  };
  /// Errors: RESOURCE_EXHAUSTED, and a merge begins; INVALID_ARGUMENT: no merge makes as
  /// much room.
  absl::Status CheckRoom(const Moment& next, const Growth& growth);
  void MakeEntry(PendingWrite* write) const;
  absl::Status Apply(const PendingWrite& write, Moment* next);
  absl::Status ApplyRow(const JournalRow& row, Moment* next);
  void Publish(std::shared_ptr<const Moment> next);
  void Wake();

  Place Locate(const Moment& moment, std::uint64_t label, std::uint32_t sealed_id) const;
  static void Kill(Moment* moment, const Place& place);
  void KeepChangedRows(Moment* next);

  // delta.cc
  void MakeGraphs();
  /// Writes the oldest graph to its file if it has `times` the rows that are in the file,
  /// and a piece, so that opening the collection need not make it again. The file is a
  /// cache: errors do not matter.
  void KeepGraph(const Moment& moment, std::uint64_t times);
  static bool WantsGraph(const Moment& moment);
  /// Kills in `part` the labels that writes after `*after` have changed, and sets it to
  /// the last of these.
  absl::Status KillChanged(std::uint64_t* after, Moment::Part* part) const;
  /// Counts failures of merges one after the other, remembers the error, and waits before
  /// the next attempt.
  void Note(const absl::Status& status, int* failures);

  // merge.cc
  class Shown;
  void MergeWhenDue();
  bool WantsMerge(const Moment& moment) const;
  /// Whether so much of what the delta and the journal may take is taken.
  bool IsFull(const Moment& moment, double share) const;
  /// Whether much more would come before the end of a merge than should. `worked`: what
  /// it has done, of as much as the last one.
  bool EndsLate(const Moment& moment, double worked) const;
  /// Seconds that a merge would have taken so far if nothing had slowed it down.
  double Worked(std::chrono::steady_clock::time_point start) const;
  /// `is_asked`: a caller waits for it.
  absl::Status Merge(Progress& progress, const std::atomic<bool>& cancelled, bool is_asked);
  /// The last write that the files of an interrupted merge have; 0: there are none.
  std::uint64_t InterruptedMerge() const;
  absl::StatusOr<MergeJob> StartMerge(Progress& progress, const std::atomic<bool>& cancelled);
  absl::Status BuildMerged(const MergeJob& job, Progress& progress,
                           const std::atomic<bool>& cancelled, bool is_asked);
  absl::Status BuildAside(BuildCall& call, Progress& progress, const std::atomic<bool>& cancelled,
                          bool is_asked);
  /// From now on, rows go to a new graph.
  void CutGraphs();
  absl::Status SwapMerged(const MergeJob& job, Progress& progress);
  /// Erases the names of vectors that writes in the journal deleted.
  absl::Status EraseNames();
  std::uint64_t MergeMemory() const;
  /// Rows that came since counted_at_.
  double RowsASecond(const Moment& moment) const;
  int MergeThreads(const Moment& moment) const;

  const std::string folder_;
  const OpenCollection options_;
  FileLock lock_;
  std::shared_ptr<CollectionShape> shape_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Journal> names_;  ///< the same, for readers, which do not wait for writers
  std::atomic<std::shared_ptr<const Moment>> now_;

  std::mutex queue_mutex_;  ///< guards the next two
  std::vector<PendingWrite*> queue_;
  bool is_writing_ = false;

  mutable std::mutex writing_;  ///< guards all that follows, and changes of now_
  Manifest manifest_;
  /// Changes to the rows by label by writes that are not on disk yet; absent: erased.
  absl::flat_hash_map<std::uint64_t, std::optional<std::uint64_t>> changed_rows_;
  absl::flat_hash_set<std::string> operations_;  ///< of the writes of a group
  std::uint64_t merge_end_ = 0;    ///< rows of the delta below are in the merge that was begun
  std::uint64_t merge_bytes_ = 0;  ///< of its writes in the journal
  /// Writes up to this one are in the base file of a merge that was interrupted.
  std::atomic<std::uint64_t> resumable_ = 0;

  std::uint64_t lost_writes_ = 0;         ///< as CollectionInfo has it
  std::vector<std::string> other_files_;  ///< as well
  std::uint64_t usable_ = 0;              ///< bytes of memory, when it was opened
  std::uint64_t delta_limit_ = 0;         ///< bytes of the delta, and of the journal
  std::atomic<bool> wants_room_ = false;  ///< a write was refused
  /// When the last merge began, or the collection was opened; and rows of the delta then.
  std::atomic<std::chrono::steady_clock::time_point> counted_at_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> counted_rows_ = 0;

  std::mutex prune_mutex_;          ///< held while the journal loses writes, or is copied
  std::mutex merge_mutex_;          ///< held while a merge runs, and guards the next
  std::uint64_t uncalibrated_ = 0;  ///< rows that came since a merge calibrated
  std::mutex wake_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> is_open_ = false, stop_ = false;
  std::atomic<std::uint64_t> merges_ = 0, merge_failures_ = 0;
  std::atomic<double> merge_seconds_ = 0;   ///< of the last merge
  std::atomic<double> merge_work_ = 0;      ///< of the last merge: Worked
  std::atomic<double> slowed_seconds_ = 0;  ///< of this merge
  std::atomic<std::uint64_t> covered_ = 0;  ///< of manifest_, for who must not wait
  mutable std::mutex facts_mutex_;          ///< guards the next two
  std::string last_error_;
  const Progress* merging_ = nullptr;  ///< of the merge that runs; nullptr: none
  std::atomic<std::chrono::steady_clock::time_point> refreshed_at_ = {};
  /// Rows [first, second) are in the file of the oldest graph. Only the thread that
  /// inserts uses it.
  std::pair<std::uint64_t, std::uint64_t> kept_rows_;
  std::thread grapher_, merger_, follower_;
};

}  // namespace hmann
