#include "index/filter_cache.h"

#include <algorithm>

#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<std::shared_ptr<const Matches>> FilterCache::Get(const Attributes& attributes,
                                                                const Filter& filter) {
  const auto find = [&] {
    const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Entry& entry) {
      return entry.text == filter.text();
    });
    if (found != recent_.end()) recent_.splice(recent_.begin(), recent_, found);
    return found != recent_.end();
  };
  {
    const std::lock_guard lock(mutex_);
    if (find()) return recent_.front().matches;
  }
  HMANN_ASSIGN_OR_RETURN(Matches made, attributes.Matching(filter));
  auto matches = std::make_shared<const Matches>(std::move(made));
  const std::lock_guard lock(mutex_);
  if (find()) return recent_.front().matches;  // another thread was faster
  recent_.push_front({filter.text(), matches});
  bytes_ += recent_.front().bytes();
  for (; bytes_ > kMostBytes && recent_.size() > 1; recent_.pop_back())
    bytes_ -= recent_.back().bytes();
  return matches;
}

std::uint64_t FilterCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace hmann
