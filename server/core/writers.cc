#include "server/core/writers.h"

#include <chrono>

#include "server/core/errors.h"

namespace hmann::server {
namespace {

/// Writes that may wait for a collection, and threads that write to it: guesses.
constexpr std::size_t kMostWaiting = 1024;
constexpr std::size_t kMostThreads = 16;
constexpr std::chrono::milliseconds kComeAgain(50);
/// For which a thread waits for the next write: to start one takes longer than a write.
constexpr std::chrono::milliseconds kStay(100);

}  // namespace

absl::Status Writers::Submit(std::uint64_t generation, std::function<void()> write) {
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[generation];
    if (queue.waiting.size() >= kMostWaiting) return QueueFull(kMostWaiting, kComeAgain);
    queue.waiting.push_back(std::move(write));
    queue.wake.notify_one();
    if (queue.threads == kMostThreads || queue.waiting.size() <= queue.idle)
      return absl::OkStatus();
    ++queue.threads;
  }
  // Without another thread, the caller's writes.
  if (!loader_.Run(false, [this, generation] { Drain(generation); }).ok()) Drain(generation);
  return absl::OkStatus();
}

std::size_t Writers::Waiting(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(generation);
  return queue == queues_.end() ? 0 : queue->second.waiting.size();
}

void Writers::Drain(std::uint64_t generation) {
  while (true) {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      Queue& queue = queues_[generation];
      ++queue.idle;
      queue.wake.wait_for(lock, kStay, [&] { return !queue.waiting.empty(); });
      --queue.idle;
      if (queue.waiting.empty()) {
        if (--queue.threads == 0) queues_.erase(generation);
        return;
      }
      next = std::move(queue.waiting.front());
      queue.waiting.pop_front();
    }
    next();
  }
}

}  // namespace hmann::server
