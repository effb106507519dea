#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/loader.h"
#include "server/core/options.h"
#include "server/core/registry.h"
#include "server/core/versions.h"

namespace hmann::server {

/// Makes a registry serve what a configuration names. It remembers for each name what is
/// wanted and what it loaded last, and loads where they differ. What an operator changes
/// otherwise stays until the configuration changes, or the newest version.
///
/// Loads run one after another. A load that does not move for a second lets the next one
/// begin. So does a folder that does not answer.
///
/// Thread safety: all methods may be called from any thread. Those of `loader` must have
/// ended before this is destroyed.
class Reconciler {
 public:
  struct Events {
    /// After each load.
    std::function<void(ServedIndex&, const absl::StatusOr<Snapshot>&)> tried;
    /// A name came, went, or stands for another index.
    std::function<void()> changed;
  };

  /// All that is pointed to must outlive this.
  Reconciler(Registry* registry, Loader* loader, Events events)
      : registry_(*registry), loader_(*loader), events_(std::move(events)) {}

  /// Serve these from now on. An index that is no longer named is removed, unless it was
  /// added by an operator. An alias moves once its new index is served, and its old index
  /// is removed after that. Tries again what failed. Returns true if anything differs.
  /// Errors: ALREADY_EXISTS for an alias with the name of an operator's index.
  absl::StatusOr<bool> Want(const std::vector<IndexSpec>& indexes, const Aliases& aliases);
  /// Begins what is due, and never waits. To be called often.
  void Tick();
  /// Whether `path` is in the folder that has the file or the versions of the index of
  /// this name, or below. Symbolic links in it are not looked at. An index that is not
  /// wanted has no folder.
  bool InFolderOf(const std::string& name, const std::string& path) const;
  /// True once each of the indexes that were wanted first has been tried.
  bool tried() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// An index of the configuration. Another one takes its place if its spec changes.
  struct Entry {
    Entry(IndexSpec wanted_spec, std::shared_ptr<ServedIndex> of)
        : spec(std::move(wanted_spec)), index(std::move(of)) {}
    const IndexSpec spec;
    const std::shared_ptr<ServedIndex> index;  // null: removed while it was added
    bool wanted = true, due = true, again = false;
    bool busy = false;  // a thread looks for its file, or loads it
    bool tried = false;
    VersionList versions;
    FileVersion loaded;  // last
    absl::Status complaint;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  /// These are called with the mutex held.
  bool WantOne(const IndexSpec& spec, std::shared_ptr<Entry>* entry);
  std::shared_ptr<ServedIndex> Registered(const IndexSpec& spec);
  std::shared_ptr<Entry> NextDue() const;
  bool Leaves(const Entry& entry, const Aliases& now) const;
  void Settle();
  void Complain(Entry& entry, const absl::Status& status);

  void Sweep(std::uint64_t number);
  void Visit(const std::shared_ptr<Entry>& entry, std::uint64_t number);
  void Load(const std::shared_ptr<Entry>& entry, const FileVersion& version);
  void Loaded(Entry& entry, const FileVersion& version, const absl::StatusOr<Snapshot>& loaded);

  Registry& registry_;
  Loader& loader_;
  const Events events_;
  mutable std::mutex mutex_;  // guards all below
  Entries entries_;
  Aliases aliases_;  // wanted
  std::set<const ServedIndex*> loads_;
  Clock::time_point next_look_;
  std::uint64_t sweep_ = 0;  // the thread that goes through the entries; others end
  bool sweeping_ = false;
  std::optional<Clock::time_point> looking_;  // since when, if it looks for a file
  mutable bool tried_ = false;
};

}  // namespace hmann::server
