#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "server/core/file_guard.h"
#include "server/core/options.h"
#include "server/core/work_meter.h"

namespace hmann::server {

enum class IndexState { kLoading, kServing, kFailed };
/// "loading", "serving", "failed".
const char* Name(IndexState state);

/// Progress of the checksum pass over data that is read in place.
struct ScrubProgress {
  std::atomic<std::uint64_t> bytes{0}, passes{0};
};

/// One served file: the open index, its guard, and its searchers. It lives as long as its
/// name stands for it, and then until the last request that uses it has ended.
///
/// Thread safety: all methods may be called from any thread.
class Generation {
 public:
  /// Opens the index and warms it. Errors: those of FileGuard and Index::Open.
  static absl::StatusOr<std::shared_ptr<Generation>> Open(const std::string& path,
                                                          const OpenOptions& options,
                                                          bool warm = false);

  /// A number that is never reused.
  std::uint64_t number() const { return number_; }
  const Index& index() const { return *index_; }
  /// True while its name stands for it.
  bool current() const { return !retired_.load() && !withdrawn_.load(); }

  /// Lends a searcher for one query at a time; null when no search may start any more.
  /// Returned searchers are kept for reuse of their scratch memory: as many as were ever
  /// in use at once.
  std::unique_ptr<Searcher> TakeSearcher();
  void GiveBack(std::unique_ptr<Searcher> searcher);
  /// True if everything searches have read so far was the file as opened.
  bool Intact() const;

 private:
  friend class ServedIndex;
  explicit Generation(std::unique_ptr<FileGuard> guard);

  /// Marks this as replaced by another generation; no searcher is kept from now on.
  void Retire();
  /// Lets no further search start; returns when the running ones have ended.
  void Withdraw();
  void RefreshPlacements();

  const std::uint64_t number_;
  std::shared_ptr<const Index> index_;  // set by Open only
  const std::unique_ptr<FileGuard> guard_;
  std::atomic<bool> retired_{false}, withdrawn_{false};  // written under mutex_
  std::mutex mutex_;                                     // guards all below
  std::condition_variable returned_;
  int lent_ = 0;  // searchers
  std::vector<std::unique_ptr<Searcher>> idle_;
  std::vector<Placement> placements_;
};

/// What tells whether the file at a path changed: inode, size, and time. All 0: no file.
using FileStamp = std::array<std::int64_t, 4>;

class ServedIndex;

/// An index as one request sees it from beginning to end. It stays with one generation,
/// even if the name stands for another meanwhile.
class Snapshot {
 public:
  Snapshot() = default;
  /// Takes the generation that is served now. `served` must outlive this.
  Snapshot(ServedIndex* served);  // NOLINT(google-explicit-constructor)

  const Index& operator*() const { return generation_->index(); }
  const Index* operator->() const { return &generation_->index(); }
  ServedIndex& served() const { return *served_; }
  Generation& generation() const { return *generation_; }

 private:
  friend class ServedIndex;
  ServedIndex* served_ = nullptr;
  std::shared_ptr<Generation> generation_;  // null: none was loaded
};

/// A named index and its current generation. It goes from LOADING to SERVING or FAILED.
/// It also goes from SERVING to FAILED when its file changes or proves damaged.
///
/// Thread safety: all methods may be called from any thread.
class ServedIndex {
 public:
  explicit ServedIndex(IndexSpec spec) : spec_(std::move(spec)) {}

  const std::string& name() const { return spec_.name; }
  IndexState state() const { return state_.load(std::memory_order_acquire); }

  /// Opens and warms the index, then serves it, or sets the state to FAILED.
  absl::Status Load(const OpenOptions& options, bool warm = false);
  /// Makes the name stand for `next`. Requests that have started finish with the
  /// generation they started with.
  void Serve(std::shared_ptr<Generation> next);
  /// Withdraws a serving index whose file has changed. Returns false if it has not
  /// changed or is not serving.
  bool WithdrawIfChanged();
  /// Withdraws a serving index: no search starts any more, running ones end, and then a
  /// waiting writer may change the file. Returns false if the index is not serving, or no
  /// longer serves `what`.
  bool Withdraw(const Snapshot& what, absl::Status why);
  bool Withdraw(absl::Status why) { return Withdraw(Snapshot(this), std::move(why)); }
  /// Reads the tuned table of a serving index if its file changed, or if `requested`.
  /// Returns true if it changed. Errors: those of ReadTunedTable. One thread at a time.
  absl::StatusOr<bool> ReloadTuned(bool requested);
  /// Checks again where the index is placed.
  void RefreshPlacements();
  /// The placements found by the last check. A check takes tens of milliseconds.
  std::vector<Placement> placements() const;
  /// Sets the state to FAILED, after a load that was not tried or did not succeed.
  void Fail(absl::Status why);

  /// The snapshot for a request. Errors: UNAVAILABLE while loading, FAILED_PRECONDITION
  /// once failed, both with details.
  absl::StatusOr<Snapshot> Get();
  /// The reason for the state FAILED.
  absl::Status failure() const;
  /// `status` in the form that clients may read, without the folder of the file.
  absl::Status ForClients(const absl::Status& status) const;

  /// Estimates the time that its queries take.
  WorkMeter& meter() { return meter_; }
  ScrubProgress& scrub() { return scrub_; }

 private:
  friend class Snapshot;
  const IndexSpec spec_;
  std::atomic<IndexState> state_{IndexState::kLoading};
  std::atomic<std::shared_ptr<Generation>> current_;  // not null once the state was SERVING
  WorkMeter meter_;
  ScrubProgress scrub_;
  FileStamp tuned_{};         // of the tuned table; used by Load, then by ReloadTuned
  mutable std::mutex mutex_;  // guards failure_ and writes to state_, current_
  absl::Status failure_;
};

/// The indexes of a server. The names are fixed at startup; the states change.
/// Thread-safe.
class Registry {
 public:
  explicit Registry(const std::vector<IndexSpec>& specs);

  const std::vector<std::unique_ptr<ServedIndex>>& indexes() const { return indexes_; }
  /// Errors: NOT_FOUND with a resource detail.
  absl::StatusOr<ServedIndex*> Find(const std::string& name) const;
  /// Null when this server has none of that name.
  ServedIndex* Named(const std::string& name) const;
  /// The current snapshot of a name. Errors: those of Find and ServedIndex::Get.
  absl::StatusOr<Snapshot> Get(const std::string& name) const;

 private:
  std::vector<std::unique_ptr<ServedIndex>> indexes_;  // in the order of the command line
  absl::flat_hash_map<std::string, ServedIndex*> by_name_;
};

}  // namespace hmann::server
