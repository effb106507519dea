#include "server/registry.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "server/errors.h"

namespace hmann {

const char* Name(IndexState state) {
  switch (state) {
    case IndexState::kLoading:
      return "loading";
    case IndexState::kServing:
      return "serving";
    case IndexState::kFailed:
      return "failed";
  }
  return "";
}

absl::Status ServedIndex::Load(const OpenOptions& options, bool warm) {
  const auto open = [&]() -> absl::Status {
    HMANN_ASSIGN_OR_RETURN(guard_, FileGuard::Take(spec_.path));
    HMANN_ASSIGN_OR_RETURN(index_, Index::Open(spec_.path, options));
    index_->Warm(warm);
    return guard_->WatchMappings();
  };
  if (absl::Status status = open(); !status.ok()) {
    Fail(status);
    return status;
  }
  RefreshPlacements();
  state_.store(IndexState::kServing, std::memory_order_release);
  return absl::OkStatus();
}

void ServedIndex::Fail(absl::Status why) {
  failure_ = std::move(why);
  state_.store(IndexState::kFailed, std::memory_order_release);
}

bool ServedIndex::WithdrawIfChanged() {
  if (state() != IndexState::kServing || !guard_->Changed()) return false;
  return Withdraw(absl::FailedPreconditionError(absl::StrCat(
      spec_.path, ": changed while it was served; write a new file and rename it instead")));
}

bool ServedIndex::Withdraw(absl::Status why) {
  std::unique_lock lock(mutex_);
  if (state() != IndexState::kServing) return false;
  Fail(std::move(why));
  // A writer that holds a broken lease goes on by itself after 45 s.
  constexpr std::chrono::seconds kMost(40);
  returned_.wait_for(lock, kMost, [this] { return lent_ == 0; });
  idle_.clear();
  guard_->Release();
  return true;
}

void ServedIndex::RefreshPlacements() {
  std::vector<Placement> placements = index_->Placements();
  const std::lock_guard lock(mutex_);
  placements_.swap(placements);
}

std::vector<Placement> ServedIndex::placements() const {
  const std::lock_guard lock(mutex_);
  return placements_;
}

absl::StatusOr<const Index*> ServedIndex::Get() const {
  switch (state()) {
    case IndexState::kLoading:
      return IndexLoading(name());
    case IndexState::kFailed:
      return IndexFailed(name(), ForClients(failure_));
    case IndexState::kServing:
      break;
  }
  return index_.get();
}

absl::Status ServedIndex::ForClients(const absl::Status& status) const {
  absl::Status told(status.code(), WithoutFolder(status.message(), spec_.path));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { told.SetPayload(type, payload); });
  return told;
}

std::unique_ptr<Searcher> ServedIndex::TakeSearcher() {
  {
    const std::lock_guard lock(mutex_);
    if (state() != IndexState::kServing) return nullptr;
    ++lent_;
    if (!idle_.empty()) {
      std::unique_ptr<Searcher> searcher = std::move(idle_.back());
      idle_.pop_back();
      return searcher;
    }
  }
  return std::make_unique<Searcher>(index_);
}

void ServedIndex::GiveBack(std::unique_ptr<Searcher> searcher) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(searcher));
  if (--lent_ == 0) returned_.notify_all();
}

Registry::Registry(const std::vector<IndexSpec>& specs) {
  for (const IndexSpec& spec : specs) {
    indexes_.push_back(std::make_unique<ServedIndex>(spec));
    by_name_[spec.name] = indexes_.back().get();
  }
}

absl::StatusOr<ServedIndex*> Registry::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return UnknownIndex(name);
  return found->second;
}

}  // namespace hmann
