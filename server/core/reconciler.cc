#include "server/core/reconciler.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

// An operator waits no longer for a new file to be seen, and a look at a folder takes far
// less; storage that does not move for this long keeps no other name waiting.
constexpr std::chrono::seconds kBetweenLooks(1), kStill(1);

bool Serves(const ServedIndex* index) {
  return index != nullptr && index->state() == IndexState::kServing;
}

}  // namespace

/// The index of this name, which may be an operator's.
std::shared_ptr<ServedIndex> Reconciler::Registered(const IndexSpec& spec) {
  const auto added = registry_.Add(spec);
  if (added.ok()) return *added;
  std::shared_ptr<ServedIndex> found = registry_.Exact(spec.name);
  if (found != nullptr) found->SetSpec(spec);
  return found;
}

/// Returns true if `spec` is not what `entry` (null: none) was.
bool Reconciler::WantOne(const IndexSpec& spec, std::shared_ptr<Entry>* entry) {
  if (*entry != nullptr && (*entry)->spec == spec &&
      registry_.Exact(spec.name) == (*entry)->index) {
    Entry& same = **entry;
    const bool returns = !std::exchange(same.wanted, true);
    same.due = true;
    same.versions = {};
    if (same.index != nullptr && same.index->state() == IndexState::kFailed) same.loaded = {};
    return returns;
  }
  if (*entry != nullptr) (*entry)->wanted = false;
  // A first load may hang, and its index with it.
  if (*entry != nullptr && (*entry)->index != nullptr &&
      (*entry)->index->state() == IndexState::kLoading)
    loader_.Close(registry_.Remove(*(*entry)->index));
  *entry = std::make_shared<Entry>(spec, Registered(spec));
  return true;
}

absl::StatusOr<bool> Reconciler::Want(const std::vector<IndexSpec>& indexes,
                                      const Aliases& aliases) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::shared_ptr<Entry>> before;
  for (const std::shared_ptr<Entry>& entry : entries_) before[entry->spec.name] = entry;
  for (const auto& [alias, index] : aliases) {
    const std::shared_ptr<ServedIndex> other = registry_.Exact(alias);
    if (other == nullptr || (before.contains(alias) && before[alias]->index == other)) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "alias ", alias, ": an operator loaded an index of this name: unload it first"));
  }
  Entries now;
  bool changed = aliases != aliases_;
  for (const IndexSpec& spec : indexes) {
    std::shared_ptr<Entry>& entry = before[spec.name];
    changed = WantOne(spec, &entry) || changed;
    now.push_back(std::exchange(entry, nullptr));
  }
  for (const std::shared_ptr<Entry>& entry : entries_) {
    if (before[entry->spec.name] == nullptr) continue;
    now.push_back(entry);  // it leaves
    changed = std::exchange(entry->wanted, false) || changed;
  }
  entries_ = std::move(now);
  aliases_ = aliases;
  Settle();
  return changed;
}

/// True if an entry that is not wanted can go: no alias needs it.
bool Reconciler::Leaves(const Entry& entry, const Aliases& now) const {
  if (entry.wanted) return false;
  if (!Serves(entry.index.get())) return true;
  if (const auto becomes = aliases_.find(entry.spec.name); becomes != aliases_.end())
    return Serves(registry_.Exact(becomes->second).get());
  return std::none_of(now.begin(), now.end(),
                      [&](const auto& alias) { return alias.second == entry.spec.name; });
}

/// Moves aliases whose new index is served, and removes what is not wanted.
void Reconciler::Settle() {
  const Aliases before = registry_.aliases();
  Aliases now = aliases_;
  for (auto& [alias, index] : now) {
    const auto old = before.find(alias);
    if (old == before.end() || old->second == index) continue;
    if (!Serves(registry_.Exact(index).get()) && Serves(registry_.Exact(old->second).get()))
      index = old->second;
  }
  if (now != before) {
    registry_.SetAliases(now);
    for (const auto& [alias, index] : now) {
      if (const auto old = before.find(alias); old == before.end() || old->second != index)
        spdlog::info("alias {}: stands for {}", alias, index);
    }
  }
  const std::size_t left = std::erase_if(entries_, [&](const std::shared_ptr<Entry>& entry) {
    if (!Leaves(*entry, now)) return false;
    if (entry->index != nullptr) loader_.Close(registry_.Remove(*entry->index));
    spdlog::info("index {}: unloaded", entry->spec.name);
    return true;
  });
  if (left > 0 || now != before) events_.changed();
}

std::shared_ptr<Reconciler::Entry> Reconciler::NextDue() const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->wanted && entry->due && !entry->busy && !loads_.contains(entry->index.get());
  });
  return found == entries_.end() ? nullptr : *found;
}

void Reconciler::Tick() {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (now >= next_look_) {
      next_look_ = now + kBetweenLooks;
      for (const std::shared_ptr<Entry>& entry : entries_)
        entry->due = std::exchange(entry->again, false) || entry->due || entry->spec.versions;
      Settle();  // an operator may have changed what aliases wait for
    }
    const bool stuck = looking_.has_value() && now > *looking_ + kStill;
    if ((sweeping_ && !stuck) || NextDue() == nullptr) return;
    sweeping_ = true;
    looking_.reset();
    number = ++sweep_;
  }
  if (loader_.Run(false, [this, number] { Sweep(number); }).ok()) return;
  const std::lock_guard lock(mutex_);
  sweeping_ = false;
}

void Reconciler::Sweep(std::uint64_t number) {
  for (;;) {
    std::shared_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      if (sweep_ != number) return;
      entry = NextDue();
      sweeping_ = entry != nullptr && !loader_.stopping();
      if (!sweeping_) return;
      entry->busy = true;
      entry->due = false;
      looking_ = Clock::now();
    }
    Visit(entry, number);
  }
}

void Reconciler::Complain(Entry& entry, const absl::Status& status) {
  if (std::exchange(entry.complaint, status) == status || status.ok()) return;
  spdlog::error("index {}: {}", entry.spec.name, std::string(status.message()));
  if (!Serves(entry.index.get())) entry.index->Fail(status);
}

/// Looks for the file of an entry, and loads it if it is not the last one.
void Reconciler::Visit(const std::shared_ptr<Entry>& entry, std::uint64_t number) {
  VersionList versions;
  {
    const std::lock_guard lock(mutex_);
    versions = entry->versions;
  }
  const absl::StatusOr<FileVersion> newest = versions.Newest(entry->spec);  // this may hang
  {
    const std::lock_guard lock(mutex_);
    if (sweep_ == number) looking_.reset();
    if (!entry->due) entry->versions = std::move(versions);
    // Otherwise its name was taken by an operator, or removed.
    const bool ours = entry->wanted && entry->index != nullptr &&
                      registry_.Exact(entry->spec.name) == entry->index;
    if (ours) Complain(*entry, newest.status());
    if (!ours || !newest.ok() || newest->path.empty() || *newest == entry->loaded ||
        loader_.stopping()) {
      entry->busy = false;
      entry->tried = true;
      return;
    }
    loads_.insert(entry->index.get());
  }
  Load(entry, *newest);
}

/// Returns when the load has ended, or does not move any more.
void Reconciler::Load(const std::shared_ptr<Entry>& entry, const FileVersion& version) {
  constexpr std::chrono::milliseconds kOften(20);
  const auto ended = std::make_shared<std::promise<void>>();
  const std::future<void> end = ended->get_future();
  loader_.Load(entry->index, version.path, {}, [this, entry, version, ended](const auto& loaded) {
    Loaded(*entry, version, loaded);
    ended->set_value();
  });
  std::uint64_t at = 0;
  auto moved = Clock::now();
  while (!loader_.stopping() && Clock::now() < moved + kStill) {
    if (end.wait_for(kOften) == std::future_status::ready) return;
    const auto loading = entry->index->facts().loading;
    const std::uint64_t now = loading == nullptr ? 0 : loading->progress.Now().done;
    if (std::exchange(at, now) != now) moved = Clock::now();
  }
}

void Reconciler::Loaded(Entry& entry, const FileVersion& version,
                        const absl::StatusOr<Snapshot>& loaded) {
  events_.tried(*entry.index, loaded);
  const std::lock_guard lock(mutex_);
  loads_.erase(entry.index.get());
  entry.busy = false;
  if (loaded.ok()) {
    entry.loaded = version;
  } else if (absl::IsAborted(loaded.status())) {
    entry.again = true;  // another load of the name ran
  } else {
    entry.versions.Refuse(version);
    entry.due = entry.due || entry.spec.versions;  // an older one may serve
  }
  entry.tried = !entry.due;
  Settle();
}

bool Reconciler::InFolderOf(const std::string& name, const std::string& path) const {
  namespace fs = std::filesystem;
  const std::lock_guard lock(mutex_);
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&name](const auto& one) {
    return one->wanted && one->spec.name == name;
  });
  std::error_code error;  // of the working folder
  if (entry == entries_.end()) return false;
  fs::path folder = fs::absolute((*entry)->spec.path, error).lexically_normal();
  if (!(*entry)->spec.versions) folder = folder.parent_path();
  const fs::path full = fs::absolute(path, error);
  // What `..` means after a symbolic link is not known.
  if (error || std::find(full.begin(), full.end(), "..") != full.end()) return false;
  const fs::path inside = full.lexically_normal().lexically_relative(folder);
  return !inside.empty() && *inside.begin() != "..";
}

bool Reconciler::tried() const {
  const std::lock_guard lock(mutex_);
  tried_ = tried_ || std::all_of(entries_.begin(), entries_.end(),
                                 [](const auto& entry) { return entry->tried; });
  return tried_;
}

}  // namespace hmann::server
