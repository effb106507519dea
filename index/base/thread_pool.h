#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hmann {

/// A fixed number of threads for data-parallel loops. One loop runs at a time; loops do
/// not nest.
///
/// Thread safety: ParallelFor may be called from any thread, one call at a time.
class ThreadPool {
 public:
  /// Which threads run the loops. A build uses OpenMP's threads. The pool's own threads
  /// run the parts of one query. Idle ones spin for a few microseconds before they sleep,
  /// so that a part does not pay for a wake-up. No environment variable changes how they
  /// wait. Without OpenMP, which sanitizers require, all threads are the pool's own.
  enum class Kind { kOpenMp, kOwn };

  /// `threads` includes the caller, who takes part in every loop: ThreadPool(1) starts no
  /// thread.
  explicit ThreadPool(int threads, Kind kind = Kind::kOpenMp);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(begin, end, thread) over disjoint chunks of at most `chunk` indices that
  /// cover [0, n), with thread in [0, threads()). The assignment of chunks to threads is
  /// not deterministic. Returns when all are done.
  void ParallelFor(std::size_t n, std::size_t chunk,
                   const std::function<void(std::size_t, std::size_t, int)>& body);

 private:
  void Work(int thread);
  void TakeChunks(int thread);

  const int threads_;
  const Kind kind_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};

  // State of the current epoch's loop.
  const std::function<void(std::size_t, std::size_t, int)>* body_ = nullptr;
  std::size_t n_ = 0;
  std::size_t chunk_ = 1;
  std::atomic<std::size_t> next_{0};

  std::vector<std::thread> workers_;
};

}  // namespace hmann
