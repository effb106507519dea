#include "server/connections/reply_watch.h"

#include <algorithm>

namespace hmann::server {

void ReplyWatch::Add(Reply* reply, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!reply->waits_) {
    reply->waits_ = true;
    reply->since_ = Clock::now();
    reply->place_ = waiting_.insert(waiting_.end(), reply);
  }
  reply->bytes_ += bytes;
  bytes_ += bytes;
  while (bytes_ > most_ && waiting_.front() != reply) CancelFirst();
}

void ReplyWatch::Remove(Reply* reply, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!reply->waits_) return;  // already cancelled
  bytes = std::min(bytes, reply->bytes_);
  reply->bytes_ -= bytes;
  bytes_ -= bytes;
  if (reply->bytes_ == 0) return Leave(reply);
  reply->since_ = Clock::now();
  waiting_.splice(waiting_.end(), waiting_, reply->place_);
}

void ReplyWatch::Forget(Reply* reply) {
  const std::lock_guard lock(mutex_);
  if (reply->waits_) Leave(reply);
}

void ReplyWatch::Leave(Reply* reply) {
  bytes_ -= reply->bytes_;
  reply->bytes_ = 0;
  reply->waits_ = false;
  waiting_.erase(reply->place_);
}

/// Requires the mutex, so that the call cannot end meanwhile.
void ReplyWatch::CancelFirst() {
  Reply* const first = waiting_.front();
  Leave(first);
  first->cancel_();
}

void ReplyWatch::CancelLate(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && now - waiting_.front()->since_ >= time_) CancelFirst();
}

}  // namespace hmann::server
