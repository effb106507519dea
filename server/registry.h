#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "server/file_guard.h"
#include "server/options.h"
#include "server/work_meter.h"

namespace hmann {

enum class IndexState { kLoading, kServing, kFailed };
/// "loading", "serving", "failed".
const char* Name(IndexState state);

/// How far the check of what is read in place has come.
struct ScrubProgress {
  std::atomic<std::uint64_t> bytes{0}, passes{0};
};

/// An index under its name, from LOADING to SERVING or FAILED, also from SERVING to
/// FAILED when its file changes or is found damaged, and the searchers over it.
///
/// Thread safety: Load once, from one thread; all else from any.
class ServedIndex {
 public:
  explicit ServedIndex(IndexSpec spec) : spec_(std::move(spec)) {}

  const std::string& name() const { return spec_.name; }
  IndexState state() const { return state_.load(std::memory_order_acquire); }

  /// Opens and warms the index, then changes the state.
  absl::Status Load(const OpenOptions& options, bool warm = false);
  /// Withdraws a serving index whose file changes. False: it does not.
  bool WithdrawIfChanged();
  /// Of a serving index: no search begins any more, those that run end, then whoever
  /// wants to write to the file may. False: it does not serve.
  bool Withdraw(absl::Status why);
  /// Looks again where the index lies.
  void RefreshPlacements();
  /// Where it lay when last looked at: that takes tens of milliseconds.
  std::vector<Placement> placements() const;
  /// The state after a load that was not tried or did not end well.
  void Fail(absl::Status why);

  /// Errors: UNAVAILABLE while loading, FAILED_PRECONDITION once failed, both with
  /// details.
  absl::StatusOr<const Index*> Get() const;
  /// Of a serving index: whether its queries wait for a device.
  bool on_block_tier() const { return index_->on_block_tier(); }
  /// Why the state is FAILED.
  const absl::Status& failure() const { return failure_; }
  /// What is said of the index, as clients may read it.
  absl::Status ForClients(const absl::Status& status) const;

  /// What its queries take.
  WorkMeter& meter() { return meter_; }
  ScrubProgress& scrub() { return scrub_; }

  /// A searcher for one query at a time; null when the index does not serve. Searchers
  /// are kept, so that their scratch is: as many as were ever in use at once.
  std::unique_ptr<Searcher> TakeSearcher();
  void GiveBack(std::unique_ptr<Searcher> searcher);
  /// Whether what searches read until now was the file as it was opened.
  bool Intact() const { return guard_->has_lease() || !guard_->Changed(); }

 private:
  const IndexSpec spec_;
  std::atomic<IndexState> state_{IndexState::kLoading};
  std::shared_ptr<const Index> index_;  // written before the state is SERVING, then never again
  std::unique_ptr<FileGuard> guard_;    // as index_
  absl::Status failure_;                // written before the state is FAILED
  WorkMeter meter_;
  ScrubProgress scrub_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  int lent_ = 0;  // searchers
  std::vector<Placement> placements_;
  std::vector<std::unique_ptr<Searcher>> idle_;
};

/// The indexes of a server: the names are fixed at the start, the states change.
/// Thread-safe.
class Registry {
 public:
  explicit Registry(const std::vector<IndexSpec>& specs);

  const std::vector<std::unique_ptr<ServedIndex>>& indexes() const { return indexes_; }
  /// Errors: NOT_FOUND with ResourceInfo.
  absl::StatusOr<ServedIndex*> Find(const std::string& name) const;

 private:
  std::vector<std::unique_ptr<ServedIndex>> indexes_;  // in the order of the command line
  absl::flat_hash_map<std::string, ServedIndex*> by_name_;
};

}  // namespace hmann
