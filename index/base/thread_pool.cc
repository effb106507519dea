#include "index/base/thread_pool.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <algorithm>
#include <chrono>

namespace hmann {
namespace {

#if defined(_OPENMP)
constexpr bool kHasOpenMp = true;
#else
constexpr bool kHasOpenMp = false;
#endif

constexpr auto kSpinTime = std::chrono::microseconds(20);

/// Tells the core that this thread is spinning.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins on `done` for kSpinTime; returns whether it became true.
template <typename Done>
bool SpinUntil(Done done) {
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return done();
}

}  // namespace

ThreadPool::ThreadPool(int threads, Kind kind)
    : threads_(std::max(threads, 1)), kind_(kHasOpenMp ? kind : Kind::kOwn) {
  if (kind_ == Kind::kOpenMp) return;
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    epoch_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::TakeChunks(int thread) {
  for (;;) {
    const std::size_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= n_) return;
    (*body_)(begin, std::min(n_, begin + chunk_), thread);
  }
}

void ThreadPool::Work(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!SpinUntil(changed)) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, changed);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    TakeChunks(thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::ParallelFor(std::size_t n, std::size_t chunk,
                             const std::function<void(std::size_t, std::size_t, int)>& body) {
  if (threads_ == 1 || n <= chunk) {
    for (std::size_t begin = 0; begin < n; begin += chunk)
      body(begin, std::min(n, begin + chunk), 0);
    return;
  }
#if defined(_OPENMP)
  if (kind_ == Kind::kOpenMp) {
    const std::size_t chunks = (n + chunk - 1) / chunk;
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (std::size_t i = 0; i < chunks; ++i)
      body(i * chunk, std::min(n, (i + 1) * chunk), omp_get_thread_num());
    return;
  }
#endif
  body_ = &body;
  n_ = n;
  chunk_ = chunk;
  next_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    epoch_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  TakeChunks(0);
  while (running_.load(std::memory_order_acquire) != 0) {
    if (!SpinUntil([this] { return running_.load(std::memory_order_acquire) == 0; }))
      std::this_thread::yield();
  }
}

}  // namespace hmann
