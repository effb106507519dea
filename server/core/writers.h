#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "server/core/loader.h"

namespace hmann::server {

/// The writes that wait for their collections. A write waits for the disk, and a
/// collection writes together what its callers bring at once: so some threads write for
/// each collection that is written to, first come, first served. A disk that hangs holds
/// up its own collection only.
///
/// Thread safety: all methods may be called from any thread.
class Writers {
 public:
  /// `loader` provides the threads; it is stopped before this ends.
  explicit Writers(Loader* loader) : loader_(*loader) {}

  /// Runs `write` soon, which changes the collection of this number. Errors, after which
  /// it does not run: RESOURCE_EXHAUSTED with QUEUE_FULL.
  absl::Status Submit(std::uint64_t generation, std::function<void()> write);

  /// How many wait for this collection.
  std::size_t Waiting(std::uint64_t generation);

 private:
  struct Queue {
    std::deque<std::function<void()>> waiting;
    std::size_t threads = 0, idle = 0;  ///< idle: those that wait for more
    std::condition_variable wake;
  };

  void Drain(std::uint64_t generation);

  Loader& loader_;
  std::mutex mutex_;                       // guards all below
  std::map<std::uint64_t, Queue> queues_;  // by generation; those with threads
};

}  // namespace hmann::server
