#include "server/core/registry.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hmann/tuned_table.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "server/core/errors.h"

namespace hmann::server {

namespace {

FileStamp StampOf(const std::string& path) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0) return {};
  return {static_cast<std::int64_t>(now.st_ino), now.st_size, now.st_mtim.tv_sec,
          now.st_mtim.tv_nsec};
}

}  // namespace

const char* Name(IndexState state) {
  constexpr const char* kNames[] = {"loading", "serving", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

Generation::Generation(std::unique_ptr<FileGuard> guard)
    : number_([] {
        static std::atomic<std::uint64_t> last{0};
        return ++last;
      }()),
      guard_(std::move(guard)) {}

absl::StatusOr<std::shared_ptr<Generation>> Generation::Open(const std::string& path,
                                                             const OpenOptions& options,
                                                             bool warm) {
  HMANN_ASSIGN_OR_RETURN(std::unique_ptr<FileGuard> guard, FileGuard::Take(path));
  std::shared_ptr<Generation> generation(new Generation(std::move(guard)));
  HMANN_ASSIGN_OR_RETURN(generation->index_, Index::Open(path, options));
  generation->index_->Warm(warm);
  HMANN_RETURN_IF_ERROR(generation->guard_->WatchMappings());
  generation->RefreshPlacements();
  return generation;
}

std::unique_ptr<Searcher> Generation::TakeSearcher() {
  {
    const std::lock_guard lock(mutex_);
    if (withdrawn_.load(std::memory_order_relaxed)) return nullptr;
    ++lent_;
    if (!idle_.empty()) {
      std::unique_ptr<Searcher> searcher = std::move(idle_.back());
      idle_.pop_back();
      return searcher;
    }
  }
  return std::make_unique<Searcher>(index_);
}

void Generation::GiveBack(std::unique_ptr<Searcher> searcher) {
  const std::lock_guard lock(mutex_);
  if (!retired_.load(std::memory_order_relaxed)) idle_.push_back(std::move(searcher));
  if (--lent_ == 0) returned_.notify_all();
}

bool Generation::Intact() const {
  // The lease of a retired generation is not watched for waiting writers any more.
  return (guard_->has_lease() && !retired_.load()) || !guard_->Changed();
}

void Generation::Retire() {
  std::vector<std::unique_ptr<Searcher>> dropped;
  const std::lock_guard lock(mutex_);
  retired_.store(true);
  dropped.swap(idle_);
}

void Generation::Withdraw() {
  std::unique_lock lock(mutex_);
  withdrawn_.store(true);
  // A writer that broke a lease proceeds by itself after 45 s.
  constexpr std::chrono::seconds kMost(40);
  returned_.wait_for(lock, kMost, [this] { return lent_ == 0; });
  idle_.clear();
  guard_->Release();
}

void Generation::RefreshPlacements() {
  std::vector<Placement> placements = index_->Placements();
  const std::lock_guard lock(mutex_);
  placements_.swap(placements);
}

Snapshot::Snapshot(ServedIndex* served) : served_(served), generation_(served->current_.load()) {}

absl::Status ServedIndex::Load(const OpenOptions& options, bool warm) {
  tuned_ = StampOf(TunedPath(spec_.path));
  absl::StatusOr<std::shared_ptr<Generation>> opened = Generation::Open(spec_.path, options, warm);
  if (!opened.ok()) {
    Fail(opened.status());
    return opened.status();
  }
  Serve(*std::move(opened));
  return absl::OkStatus();
}

void ServedIndex::Serve(std::shared_ptr<Generation> next) {
  std::shared_ptr<Generation> before;  // destroyed after the mutex is released
  const std::lock_guard lock(mutex_);
  before = current_.exchange(std::move(next));
  if (before != nullptr) before->Retire();
  state_.store(IndexState::kServing, std::memory_order_release);
}

void ServedIndex::Fail(absl::Status why) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(why);
  state_.store(IndexState::kFailed, std::memory_order_release);
}

bool ServedIndex::WithdrawIfChanged() {
  if (state() != IndexState::kServing) return false;
  const Snapshot now(this);
  if (!now.generation().guard_->Changed()) return false;
  return Withdraw(
      now,
      FailedPrecondition(spec_.path,
                         ": changed while it was served; write a new file and rename it instead"));
}

bool ServedIndex::Withdraw(const Snapshot& what, absl::Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (state() != IndexState::kServing || current_.load() != what.generation_) return false;
    failure_ = std::move(why);
    state_.store(IndexState::kFailed, std::memory_order_release);
  }
  what.generation_->Withdraw();
  return true;
}

absl::StatusOr<bool> ServedIndex::ReloadTuned(bool requested) {
  if (state() != IndexState::kServing) return false;
  const FileStamp stamp = StampOf(TunedPath(spec_.path));
  const bool changed = std::exchange(tuned_, stamp) != stamp;
  if (!changed && !requested) return false;
  HMANN_RETURN_IF_ERROR(Snapshot(this)->ReadTuned());
  return changed;
}

void ServedIndex::RefreshPlacements() {
  if (const Snapshot now(this); now.generation_ != nullptr) now.generation_->RefreshPlacements();
}

std::vector<Placement> ServedIndex::placements() const {
  const std::shared_ptr<Generation> now = current_.load();
  if (now == nullptr) return {};
  const std::lock_guard lock(now->mutex_);
  return now->placements_;
}

absl::StatusOr<Snapshot> ServedIndex::Get() {
  switch (state()) {
    case IndexState::kLoading:
      return IndexLoading(name());
    case IndexState::kFailed:
      return IndexFailed(name(), ForClients(failure()));
    case IndexState::kServing:
      break;
  }
  return Snapshot(this);
}

absl::Status ServedIndex::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

absl::Status ServedIndex::ForClients(const absl::Status& status) const {
  absl::Status reported(status.code(), WithoutFolder(status.message(), spec_.path));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    reported.SetPayload(type, payload);
  });
  return reported;
}

Registry::Registry(const std::vector<IndexSpec>& specs) {
  for (const IndexSpec& spec : specs) {
    indexes_.push_back(std::make_unique<ServedIndex>(spec));
    by_name_[spec.name] = indexes_.back().get();
  }
}

ServedIndex* Registry::Named(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::StatusOr<ServedIndex*> Registry::Find(const std::string& name) const {
  ServedIndex* const found = Named(name);
  if (found != nullptr) return found;
  std::string known;
  for (const auto& index : indexes_) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", index->name());
    if (known.size() > 64) break;
  }
  return UnknownIndex(name, known);
}

absl::StatusOr<Snapshot> Registry::Get(const std::string& name) const {
  HMANN_ASSIGN_OR_RETURN(ServedIndex* const served, Find(name));
  return served->Get();
}

}  // namespace hmann::server
