#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace hmann {

/// RESOURCE_EXHAUSTED unless the system allows `wanted` more threads.
absl::Status CheckThreads(int wanted);

/// A fixed number of threads for data-parallel loops. One loop runs at a time; loops do
/// not nest.
///
/// The threads are OpenMP's; those of a sanitizer's build, which cannot see into OpenMP,
/// are the library's. One parallel region lasts as long as they do, and its threads wait
/// here: they spin for a few microseconds, then sleep. OpenMP's own barriers spin for
/// milliseconds, which other work on the same cores turns into seconds, and only an
/// environment variable, read before main, changes that. A loop never waits for a thread
/// that has not begun to work on it. A thread's next pool of the same size takes over the
/// threads of its last one.
///
/// Thread safety: ParallelFor may be called from any thread, one call at a time.
class ThreadPool {
 public:
  /// `threads` includes the caller, who takes part in every loop: ThreadPool(1) starts no
  /// thread. Where the system refuses some of them, loops run on the others.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(begin, end, thread) over disjoint chunks of at most `chunk` indices that
  /// cover [0, n), with thread in [0, threads()). The assignment of chunks to threads is
  /// not deterministic. Returns when all are done.
  void ParallelFor(std::size_t n, std::size_t chunk,
                   const std::function<void(std::size_t, std::size_t, int)>& body);

  /// CPU seconds so far of the calling thread in loops of several chunks, of all pools.
  static double CallerSecondsInLoops() { return in_loops_; }

 private:
  struct Team;

  const int threads_;
  std::unique_ptr<Team> team_;                      ///< nullptr: the caller is alone
  static thread_local std::unique_ptr<Team> idle_;  ///< of the last pool that ended here
  static thread_local double in_loops_;
};

}  // namespace hmann
