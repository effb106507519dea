#include "server/calls/waiting_room.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "server/calls/unary_call.h"

namespace hmann::server {

void WaitingRoom::Add(UnaryCall* call, Caller caller, Clock::time_point deadline) {
  const auto now = Clock::now();
  const auto in = [&](Clock::duration most) { return now + std::min(most, (deadline - now) / 2); };
  const std::lock_guard lock(mutex_);
  call->place_ =
      waiting_.insert(waiting_.end(), {call, caller, deadline, in(kLongest), in(kLongestForBytes)});
  call->waits_ = true;
}

bool WaitingRoom::Leave(UnaryCall* call) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(call->waits_, false)) return false;
  waiting_.erase(call->place_);
  return true;
}

void WaitingRoom::LookIn(Clock::time_point now, HasRoom has_room) {
  std::list<Waiting> in, out;
  {
    const std::lock_guard lock(mutex_);
    absl::flat_hash_set<std::uint64_t> without_room;  // callers
    bool has_bytes = true;
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      const auto one = next++;
      if (one->until > now) {
        if (without_room.contains(one->caller.number)) continue;
        if (!has_room(one->caller, one->deadline)) {
          without_room.insert(one->caller.number);
          continue;
        }
      }
      has_bytes = has_bytes && one->call->Reserve();
      if (!has_bytes && one->last > now) continue;
      one->call->waits_ = false;
      (has_bytes ? in : out).splice((has_bytes ? in : out).end(), waiting_, one);
    }
  }
  for (const Waiting& one : in) one.call->Read();
  for (const Waiting& one : out) one.call->RefuseForBytes();
}

void WaitingRoom::Close(const absl::Status& why) {
  std::list<Waiting> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(waiting_);
    for (const Waiting& one : all) one.call->waits_ = false;
  }
  for (const Waiting& one : all) one.call->Refuse(why);
}

}  // namespace hmann::server
