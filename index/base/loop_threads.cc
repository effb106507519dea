#include "index/base/loop_threads.h"

#include <algorithm>
#include <atomic>

#include "index/base/thread_pool.h"

namespace hmann {

LoopThreads::~LoopThreads() = default;

#ifdef _OPENMP

LoopThreads::LoopThreads(int threads) : threads_(std::max(1, threads)) {}

void LoopThreads::ParallelFor(std::size_t n, std::size_t chunk,
                              const std::function<void(std::size_t, std::size_t, int)>& body) {
  std::atomic<std::size_t> next{0};
  std::atomic<int> joined{0};
  const auto take = [&] {
    const int thread = joined.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
      const std::size_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= n) return;
      body(begin, std::min(n, begin + chunk), thread);
    }
  };
  if (threads_ == 1 || n <= chunk) {
    take();
    return;
  }
#pragma omp parallel num_threads(threads_)
  take();
}

#else

LoopThreads::LoopThreads(int threads)
    : threads_(std::max(1, threads)), pool_(std::make_unique<ThreadPool>(threads_)) {}

void LoopThreads::ParallelFor(std::size_t n, std::size_t chunk,
                              const std::function<void(std::size_t, std::size_t, int)>& body) {
  pool_->ParallelFor(n, chunk, body);
}

#endif

}  // namespace hmann
