#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "hmann/collection.h"
#include "hmann/hmann.h"
#include "server/core/file_guard.h"
#include "server/core/index_metrics.h"
#include "server/core/options.h"
#include "server/core/probe.h"
#include "server/core/work_meter.h"

namespace hmann::server {

enum class IndexState { kLoading, kServing, kFailed };
/// "loading", "serving", "failed".
const char* Name(IndexState state);

/// Progress of the checksum pass over data that is read in place.
struct ScrubProgress {
  std::atomic<std::uint64_t> bytes{0}, passes{0};
  std::uint64_t generation = 0;               ///< of the last pass; used by the scrubber
  std::chrono::steady_clock::time_point due;  ///< of the next one; used by the scrubber
};

/// What tells whether the file at a path changed: inode, size, and time; of a folder its
/// inode. All 0: no file.
using FileStamp = std::array<std::int64_t, 4>;
FileStamp StampOf(const std::string& path);

/// What a thread searches with: of an index or of a collection, as its generation is.
struct AnySearcher {
  std::unique_ptr<Searcher> index;
  std::unique_ptr<CollectionSearcher> collection;
};

/// One served file (the open index and its guard) or collection, and its searchers. It
/// lives as long as its name stands for it, and then until the last request that uses it
/// has ended.
///
/// Thread safety: all methods may be called from any thread.
class Generation {
 public:
  /// Opens the index and warms it, or opens the collection: for reading and writing, or
  /// to follow what another process writes, as `spec` says. `progress`, if given, shows
  /// the loading. `before`, if given, stays open meanwhile. Errors: those of FileGuard,
  /// Index::Open (RESOURCE_EXHAUSTED if it does not fit in memory, too) and
  /// Collection::Open; with `before`, FAILED_PRECONDITION for another dimension, type or
  /// metric.
  static absl::StatusOr<std::shared_ptr<Generation>> Open(
      const std::string& path, const OpenOptions& options, bool warm = false,
      Progress* progress = nullptr, const IndexInfo* before = nullptr, const IndexSpec& spec = {});

  /// A number that is never reused. It grows from one generation of a name to the next.
  std::uint64_t number() const { return number_; }
  const std::string& path() const { return path_; }
  double load_seconds() const { return load_seconds_; }
  /// nullptr: it is an index.
  const std::shared_ptr<Collection>& collection() const { return collection_; }
  /// What all moments of a collection have: dimension, type, metric.
  const IndexInfo& info() const { return collection_ == nullptr ? index_->info() : shape_; }
  /// Where the data is now. `where`: as Index::Placements.
  std::vector<Placement> Placements(bool where) const;
  /// Errors: those of Probe::Check and of Resolve.
  absl::Status Check(const Probe& probe) const;
  /// True while its name stands for it.
  bool current() const { return !retired_.load() && !withdrawn_.load(); }

  /// Lends a searcher for one query at a time; null when no search may start any more.
  /// Returned searchers are kept for reuse of their scratch memory: as many as were ever
  /// in use at once.
  std::unique_ptr<AnySearcher> TakeSearcher();
  void GiveBack(std::unique_ptr<AnySearcher> searcher);
  /// True if everything searches have read so far was the file as opened.
  bool Intact() const;

 private:
  friend class ServedIndex;
  friend class Snapshot;
  Generation(std::string path, std::unique_ptr<FileGuard> guard);
  absl::Status OpenIndex(const OpenOptions& options, bool warm, Progress* progress);
  absl::Status OpenCollection(const OpenOptions& options, const IndexSpec& spec,
                              Progress* progress);
  std::unique_ptr<AnySearcher> NewSearcher() const;
  bool Changed() const { return guard_ != nullptr && guard_->Changed(); }

  /// Makes as many searchers as `before` has and lets each search once, so that the first
  /// requests do not wait for memory.
  void Prepare(Generation& before);
  /// Marks this as replaced by another generation; no searcher is kept from now on.
  void Retire();
  /// Lets no further search start; returns when the running ones have ended.
  void Withdraw();
  bool Touched() const { return guard_ != nullptr && guard_->Touched(); }

  const std::uint64_t number_;
  const std::string path_;
  double load_seconds_ = 0;             // this and the next are set by Open only
  std::shared_ptr<const Index> index_;  // or the next two
  std::shared_ptr<Collection> collection_;
  IndexInfo shape_;
  FileStamp tuned_{};                       // of the tuned table; used by Open, then by ReloadTuned
  const std::unique_ptr<FileGuard> guard_;  // null: of a collection, whose files are its own
  std::atomic<bool> checked_{false};        // its content, now, by a thread
  std::atomic<bool> retired_{false}, withdrawn_{false};  // written under mutex_
  std::mutex mutex_;                                     // guards all below
  std::condition_variable returned_;
  int lent_ = 0;  // searchers
  std::vector<std::unique_ptr<AnySearcher>> idle_;
};

class ServedIndex;

/// An index as one request sees it from beginning to end. It stays with one generation,
/// even if the name stands for another, or for none, meanwhile. A collection has one
/// moment then.
class Snapshot {
 public:
  Snapshot() = default;
  /// Takes the generation that is served now, and the last moment of a collection.
  Snapshot(ServedIndex* served);  // NOLINT(google-explicit-constructor)

  /// The index; of a collection the sealed one, or nullptr if it has none yet.
  const Index* index() const { return index_.get(); }
  /// nullptr: it is an index.
  const std::shared_ptr<const Moment>& moment() const { return moment_; }
  const IndexInfo& info() const { return generation_->info(); }
  std::uint64_t rows() const { return moment_ == nullptr ? info().n : LiveRows(*moment_); }
  /// Describes what is served; a collection with what its sealed index tells.
  IndexInfo Describe() const;
  /// False once other data is served under its name.
  bool current() const;
  ServedIndex& served() const { return *served_; }
  Generation& generation() const { return *generation_; }
  /// `status` in the form that clients may read, without the folder of the file.
  absl::Status ForClients(const absl::Status& status) const;

 private:
  friend class ServedIndex;
  std::shared_ptr<ServedIndex> served_;
  std::shared_ptr<Generation> generation_;  // null: none was loaded
  std::shared_ptr<const Moment> moment_;
  std::shared_ptr<const Index> index_;
};

/// A load that runs.
struct Loading {
  const std::string path;
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  Progress progress{Progress::Show::kNever};
};

/// The outcome of a load: what is served now, and what was before, or null.
struct Replaced {
  Snapshot now;
  std::shared_ptr<Generation> before;
};

/// What an operator sees of a name.
struct ServedFacts {
  std::string path;      ///< of what is served, or was last
  absl::Status failure;  ///< why the state is FAILED
  absl::Status refusal;  ///< of the last load that did not succeed
  std::uint64_t swaps = 0, refusals = 0;
  std::shared_ptr<const Loading> loading;  ///< null: no load runs
  std::vector<Placement> placements;       ///< without `where`
};

/// A named index and its current generation. It goes from LOADING to SERVING or FAILED.
/// It also goes from SERVING to FAILED when its file changes or proves damaged, and back
/// when another file is loaded. Owned by shared_ptr.
///
/// Thread safety: all methods may be called from any thread.
class ServedIndex : public std::enable_shared_from_this<ServedIndex> {
 public:
  explicit ServedIndex(const IndexSpec& spec)
      : name_(spec.name), metrics_(name_), spec_(spec), path_(spec.path) {}

  const std::string& name() const { return name_; }
  IndexSpec spec() const;
  /// Sets the tiers for loads that begin from now on.
  void SetSpec(IndexSpec spec);
  IndexState state() const { return state_.load(std::memory_order_acquire); }

  /// Opens and warms the file at `path` while another is served, then makes the name
  /// stand for it; requests that have started finish with the generation they started
  /// with. `probe` is checked before. On errors, what was served is served on; if nothing
  /// was, the state is FAILED. Errors: those of Generation::Open and Probe::Check;
  /// ABORTED while another load of this name runs, and if the name is removed meanwhile.
  absl::StatusOr<Replaced> Load(const std::string& path, const OpenOptions& options,
                                bool warm = false, const Probe& probe = {});
  /// Lets no request start any more (NOT_FOUND) and no load succeed. Returns what was
  /// served. To be called by Registry::Remove.
  std::shared_ptr<Generation> Remove();
  /// Withdraws a serving index whose file has changed. Returns false if it has not
  /// changed or is not serving.
  bool WithdrawIfChanged();
  /// True, once, when the file of a serving index has new times: then call
  /// WithdrawIfDamaged, which compares all that is read in place with its checksums. That
  /// may take long. It returns true if it withdrew the index.
  bool WantsCheck();
  bool WithdrawIfDamaged();
  /// Withdraws a serving index: no search starts any more, running ones end, and then a
  /// waiting writer may change the file. Returns false if the index is not serving, or no
  /// longer serves `what`.
  bool Withdraw(const Snapshot& what, absl::Status why);
  bool Withdraw(absl::Status why) { return Withdraw(Snapshot(this), std::move(why)); }
  /// Reads the tuned table of a serving index if its file changed, or if `requested`.
  /// Returns true if it changed. Errors: those of ReadTunedTable. One thread at a time.
  absl::StatusOr<bool> ReloadTuned(bool requested);
  /// Looks how much of its disk a collection that is served has free, and logs what fails
  /// in its background, and when that ends. One thread at a time; it waits as long as
  /// storage hangs.
  void LookAtCollection();
  /// As LookAtCollection saw it; 0: it is none.
  std::uint64_t free_disk_bytes() const { return free_disk_bytes_; }
  /// Sets the state to FAILED, after a load that was not tried.
  void Fail(absl::Status why);

  /// The snapshot for a request. Errors: UNAVAILABLE while loading, FAILED_PRECONDITION
  /// once failed, NOT_FOUND once removed, all with details.
  absl::StatusOr<Snapshot> Get();
  /// The reason for the state FAILED.
  absl::Status failure() const { return facts().failure; }
  ServedFacts facts() const;

  /// Estimates the time that its queries take. One generation hands it to the next.
  WorkMeter& meter() { return meter_; }
  ScrubProgress& scrub() { return scrub_; }
  IndexMetrics& metrics() const { return metrics_; }

 private:
  friend class Snapshot;
  absl::StatusOr<std::shared_ptr<Loading>> BeginLoad(const std::string& path);
  /// Makes the name stand for `next`, with the mutex held; returns what it stood for.
  std::shared_ptr<Generation> Flip(std::shared_ptr<Generation> next);

  const std::string name_;
  std::atomic<IndexState> state_{IndexState::kLoading};
  std::atomic<std::shared_ptr<Generation>> current_;  // not null once the state was SERVING
  WorkMeter meter_;
  ScrubProgress scrub_;
  std::atomic<std::uint64_t> free_disk_bytes_{0};
  std::string complaint_;  // of the collection; used by LookAtCollection
  mutable IndexMetrics metrics_;
  mutable std::mutex mutex_;  // guards all below, and writes to state_ and current_
  IndexSpec spec_;
  std::string path_;
  absl::Status failure_, refusal_;
  std::uint64_t swaps_ = 0, refusals_ = 0;
  std::shared_ptr<Loading> loading_;
  bool removed_ = false;
};

/// The indexes of a server, by name. Thread-safe.
class Registry {
 public:
  using Indexes = std::vector<std::shared_ptr<ServedIndex>>;

  explicit Registry(const std::vector<IndexSpec>& specs, Aliases aliases = {});
  /// Lets errors name no other index from now on: callers may not know of all. To be
  /// called before any call.
  void HideNames() { hides_names_ = true; }

  /// All, in the order in which they were added.
  Indexes indexes() const;
  /// Adds a name, which is LOADING. Errors: INVALID_ARGUMENT for its form;
  /// ALREADY_EXISTS.
  absl::StatusOr<std::shared_ptr<ServedIndex>> Add(const IndexSpec& spec);
  /// Removes this index, if it is there. Its requests that have started still end.
  /// Returns what it served, or null.
  std::shared_ptr<Generation> Remove(const ServedIndex& index);
  /// Errors: NOT_FOUND with a resource detail.
  absl::StatusOr<std::shared_ptr<ServedIndex>> Find(const std::string& name) const;
  /// Null when this server has none of that name or alias.
  std::shared_ptr<ServedIndex> Named(const std::string& name) const;
  /// The same, without aliases.
  std::shared_ptr<ServedIndex> Exact(const std::string& name) const;
  /// The current snapshot of a name. Errors: those of Find and ServedIndex::Get.
  absl::StatusOr<Snapshot> Get(const std::string& name) const;

  Aliases aliases() const;
  /// Replaces all aliases at once. An index with the name of an alias goes before it.
  void SetAliases(Aliases aliases);

 private:
  std::shared_ptr<ServedIndex> Lookup(const std::string& name) const;

  bool hides_names_ = false;
  mutable std::shared_mutex mutex_;
  Aliases aliases_;  // guarded, as the next two, by mutex_
  Indexes indexes_;
  absl::flat_hash_map<std::string, std::shared_ptr<ServedIndex>> by_name_;
};

}  // namespace hmann::server
