#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "hmann/progress.h"
#include "index/base/thread_pool.h"

namespace hmann {

/// What long work is done with, handed down as one: threads, who watches, and whether to
/// go on. Nothing is owned.
struct Job {
  ThreadPool& pool;
  Progress& progress;
  const std::atomic<bool>* cancelled = nullptr;  ///< absent: never

  /// From any thread; loops of the pool leave the rest of their work undone then.
  bool Cancelled() const {
    return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
  }
  /// Errors: CANCELLED.
  absl::Status CheckCancelled() const {
    return Cancelled() ? absl::CancelledError("the work was cancelled") : absl::OkStatus();
  }
};

}  // namespace hmann
