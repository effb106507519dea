#pragma once

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

/// How far the check of what is read in place has come.
struct ScrubProgress {
  std::atomic<std::uint64_t> bytes{0}, passes{0};
};

/// One file as it is served: opened, guarded, and the searchers over it. It lives while
/// its name stands for it, and then as long as a request of it runs.
///
/// Thread safety: all from any thread.
class Generation {
 public:
  /// Opens and warms it. Errors: those of FileGuard and Index::Open.
  static absl::StatusOr<std::shared_ptr<Generation>> Open(const std::string& path,
                                                          const OpenOptions& options,
                                                          bool warm = false);

  /// Never used again.
  std::uint64_t number() const { return number_; }
  const Index& index() const { return *index_; }
  /// Whether its name stands for it.
  bool current() const { return !retired_.load() && !withdrawn_.load(); }

  /// A searcher for one query at a time; null when none may begin any more. Searchers are
  /// kept, so that their scratch is: as many as were ever in use at once.
  std::unique_ptr<Searcher> TakeSearcher();
  void GiveBack(std::unique_ptr<Searcher> searcher);
  /// Whether what searches read until now was the file as it was opened.
  bool Intact() const;

 private:
  friend class ServedIndex;
  explicit Generation(std::unique_ptr<FileGuard> guard);

  /// Another one is served from now on: keeps no searcher.
  void Retire();
  /// No search begins any more; returns when those that run have ended.
  void Withdraw();
  void RefreshPlacements();

  const std::uint64_t number_;
  std::shared_ptr<const Index> index_;  // of Open alone
  const std::unique_ptr<FileGuard> guard_;
  std::atomic<bool> retired_{false}, withdrawn_{false};  // written under mutex_
  std::mutex mutex_;                                     // of what follows
  std::condition_variable returned_;
  int lent_ = 0;  // searchers
  std::vector<std::unique_ptr<Searcher>> idle_;
  std::vector<Placement> placements_;
};

class ServedIndex;

/// An index as a request has it from its beginning to its end: one generation of it,
/// whatever its name stands for meanwhile.
class Snapshot {
 public:
  Snapshot() = default;
  /// Of what is served now; `served` outlives this.
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

/// An index under its name, from LOADING to SERVING or FAILED, also from SERVING to
/// FAILED when its file changes or is found damaged; and what it stands for.
///
/// Thread safety: all from any thread.
class ServedIndex {
 public:
  explicit ServedIndex(IndexSpec spec) : spec_(std::move(spec)) {}

  const std::string& name() const { return spec_.name; }
  IndexState state() const { return state_.load(std::memory_order_acquire); }

  /// Opens and warms the index, then serves it, or has failed.
  absl::Status Load(const OpenOptions& options, bool warm = false);
  /// The name stands for `next` from now on. Requests that have begun end with what they
  /// began with.
  void Serve(std::shared_ptr<Generation> next);
  /// Withdraws a serving index whose file changes. False: it does not.
  bool WithdrawIfChanged();
  /// Of a serving index: no search begins any more, those that run end, then whoever
  /// wants to write to the file may. False: it does not serve, or not this any more.
  bool Withdraw(const Snapshot& what, absl::Status why);
  bool Withdraw(absl::Status why) { return Withdraw(Snapshot(this), std::move(why)); }
  /// Looks again where the index lies.
  void RefreshPlacements();
  /// Where it lay when last looked at: that takes tens of milliseconds.
  std::vector<Placement> placements() const;
  /// The state after a load that was not tried or did not end well.
  void Fail(absl::Status why);

  /// For a request. Errors: UNAVAILABLE while loading, FAILED_PRECONDITION once failed,
  /// both with details.
  absl::StatusOr<Snapshot> Get();
  /// Why the state is FAILED.
  absl::Status failure() const;
  /// What is said of the index, as clients may read it.
  absl::Status ForClients(const absl::Status& status) const;

  /// What its queries take.
  WorkMeter& meter() { return meter_; }
  ScrubProgress& scrub() { return scrub_; }

 private:
  friend class Snapshot;
  const IndexSpec spec_;
  std::atomic<IndexState> state_{IndexState::kLoading};
  std::atomic<std::shared_ptr<Generation>> current_;  // not null once the state was SERVING
  WorkMeter meter_;
  ScrubProgress scrub_;
  mutable std::mutex mutex_;  // of those that write to state_ and current_, and of failure_
  absl::Status failure_;
};

/// The indexes of a server: the names are fixed at the start, the states change.
/// Thread-safe.
class Registry {
 public:
  explicit Registry(const std::vector<IndexSpec>& specs);

  const std::vector<std::unique_ptr<ServedIndex>>& indexes() const { return indexes_; }
  /// Errors: NOT_FOUND of a resource.
  absl::StatusOr<ServedIndex*> Find(const std::string& name) const;
  /// What a name stands for now. Errors: those of Find and ServedIndex::Get.
  absl::StatusOr<Snapshot> Get(const std::string& name) const;

 private:
  std::vector<std::unique_ptr<ServedIndex>> indexes_;  // in the order of the command line
  absl::flat_hash_map<std::string, ServedIndex*> by_name_;
};

}  // namespace hmann::server
