#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace hmann {

class ThreadPool;

/// Threads for the data-parallel loops of builds and tools: OpenMP's; where that is not
/// compiled in (ThreadSanitizer, which does not know its runtime; clang) a ThreadPool.
/// One loop runs at a time; loops do not nest.
class LoopThreads {
 public:
  /// `threads` counts the caller, who takes part in every loop.
  explicit LoopThreads(int threads);
  ~LoopThreads();
  LoopThreads(const LoopThreads&) = delete;
  LoopThreads& operator=(const LoopThreads&) = delete;

  int threads() const { return threads_; }

  /// Calls body(begin, end, thread) over disjoint chunks of at most `chunk` indices that
  /// cover [0, n), thread in [0, threads()); which thread takes which chunk is not
  /// determined. Returns when all are done.
  void ParallelFor(std::size_t n, std::size_t chunk,
                   const std::function<void(std::size_t, std::size_t, int)>& body);

 private:
  int threads_;
  std::unique_ptr<ThreadPool> pool_;  ///< instead of OpenMP's threads
};

}  // namespace hmann
