#include "server/registry.h"

#include <utility>

#include "server/errors.h"

namespace hmann {

absl::Status ServedIndex::Load(const OpenOptions& options) {
  absl::StatusOr<std::shared_ptr<const Index>> index = Index::Open(spec_.path, options);
  if (!index.ok()) {
    Fail(index.status());
    return index.status();
  }
  (*index)->Warm();
  index_ = *std::move(index);
  state_.store(IndexState::kServing, std::memory_order_release);
  return absl::OkStatus();
}

void ServedIndex::Fail(absl::Status why) {
  failure_ = std::move(why);
  state_.store(IndexState::kFailed, std::memory_order_release);
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
