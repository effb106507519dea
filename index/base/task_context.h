#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "hmann/progress.h"
#include "index/base/thread_pool.h"

namespace hmann {

/// What a long task needs, passed as one: its threads, its progress observer, and its
/// cancellation flag. Owns nothing.
struct TaskContext {
  ThreadPool& pool;
  Progress& progress;
  const std::atomic<bool>* cancelled = nullptr;  ///< nullptr: never cancelled
  const std::atomic<bool>* slowed = nullptr;     ///< nullptr: never slowed down

  /// Thread-safe. The pool's loops skip the rest of their work once this is true. While
  /// the task is slowed down, waits for twice the time since this thread's last call.
  bool Cancelled() const {
    if (slowed != nullptr) Slow();
    return IsCancelled();
  }
  bool IsCancelled() const {
    return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
  }
  void Slow() const {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kMost(500);  // that it waits: a guess
    static thread_local Clock::time_point last = Clock::now();
    const Clock::time_point now = Clock::now();
    const Clock::time_point until = now + std::min<Clock::duration>(2 * (now - last), kMost);
    while (slowed->load(std::memory_order_relaxed) && Clock::now() < until && !IsCancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    last = Clock::now();
  }
  /// Errors: CANCELLED.
  absl::Status CheckCancelled() const {
    return Cancelled() ? absl::CancelledError("the work was cancelled") : absl::OkStatus();
  }
};

}  // namespace hmann
