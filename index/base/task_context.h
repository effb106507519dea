#pragma once

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
  const std::atomic<bool>* paused = nullptr;     ///< nullptr: never paused

  /// Waits while the task is paused. Thread-safe. The pool's loops skip the rest of their
  /// work once this is true.
  bool Cancelled() const {
    while (paused != nullptr && paused->load(std::memory_order_relaxed) && !IsCancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return IsCancelled();
  }
  bool IsCancelled() const {
    return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
  }
  /// Errors: CANCELLED.
  absl::Status CheckCancelled() const {
    return Cancelled() ? absl::CancelledError("the work was cancelled") : absl::OkStatus();
  }
};

}  // namespace hmann
