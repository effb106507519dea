#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "index/hmann.h"
#include "server/registry.h"

namespace hmann {

/// The queries of one request. Owned by the request; the pool lets go of it when it calls
/// Complete.
class SearchJob {
 public:
  using Clock = std::chrono::steady_clock;

  /// `bytes`: memory that the request and its reply take, about.
  SearchJob(ServedIndex* index, std::size_t queries, std::uint64_t bytes,
            Clock::time_point deadline);
  virtual ~SearchJob() = default;

  /// Stops the walks of this job soon; what waits is not begun. Any thread, until
  /// Complete was called.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 protected:
  /// Answers query `i`; several threads at once, each with another `i`.
  virtual absl::Status Answer(std::size_t i, Searcher& searcher, const SearchLimits& limits) = 0;
  /// Queries that a thread may take together, so that it computes for one while memory or
  /// a device is waited for by the others.
  virtual std::size_t Together() const { return 1; }
  /// Answers queries [begin, end), which one thread took together.
  virtual absl::Status AnswerMany(std::size_t begin, std::size_t end, Searcher& searcher,
                                  const SearchLimits& limits);
  /// All queries are answered (OK), or one failed: the error of the first that did. No
  /// thread touches the job any more; it may be deleted.
  virtual void Complete(const absl::Status& status) = 0;

 private:
  friend class SearchPool;
  bool Dead() const {
    return failed_.load(std::memory_order_relaxed) || cancelled_.load(std::memory_order_relaxed);
  }
  void Fail(absl::Status status);

  ServedIndex* const index_;
  const std::size_t queries_;
  const std::uint64_t bytes_;
  const Clock::time_point deadline_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> failed_{false};
  std::size_t next_ = 0;                 // guarded by the pool's mutex
  std::atomic<std::size_t> unfinished_;  // queries
  std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
};

/// The threads that search for a server, behind a bounded queue.
///
/// Jobs take turns: a thread takes a query of the job in front, or a few that it may
/// answer together, and the job goes to the back, so that a batch uses all threads when
/// the server is idle and does not hold up single queries when it is not. A job whose
/// deadline passed in the queue, or whose client went away, is dropped without a search.
///
/// Thread safety: all from any thread.
class SearchPool {
 public:
  /// `threads`: queries that are answered at once. `queue`: jobs that may wait, wholly or
  /// in part. `bytes`: of all jobs taken.
  SearchPool(int threads, std::size_t queue, std::uint64_t bytes);
  /// Every job must have finished.
  ~SearchPool();
  SearchPool(const SearchPool&) = delete;
  SearchPool& operator=(const SearchPool&) = delete;

  int threads() const { return threads_; }

  /// Takes the job; its Complete will be called. Errors: RESOURCE_EXHAUSTED with
  /// QUEUE_FULL or MEMORY_FULL and a delay, estimated from the work that waits; Complete
  /// is not called then.
  absl::Status Submit(SearchJob* job);

  /// Answers a job of one query in the calling thread, which saves two hand-overs, when
  /// nothing waits and one of the pool's threads is idle; that thread stays idle
  /// meanwhile. At most one at a time, because the callers are the few threads that poll
  /// the sockets. False: nothing was done.
  bool TryRunHere(SearchJob* job);

 private:
  struct Work {
    SearchJob* job = nullptr;
    std::size_t begin = 0, end = 0;
  };

  void Loop();
  Work Take();
  /// True when this was the last of the job, which is gone then.
  bool Run(const Work& work);
  void Release(bool here, std::uint64_t bytes);
  std::chrono::nanoseconds RetryDelay() const;

  const int threads_;
  const std::size_t capacity_;
  const std::uint64_t most_bytes_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<SearchJob*> jobs_;  // with queries not yet taken, whose turn is next in front
  std::size_t waiting_ = 0;      // queries in jobs_
  std::uint64_t bytes_ = 0;      // of the jobs that Submit took and that are not complete
  int busy_ = 0;                 // searches that run, here or in the pool
  bool here_ = false;            // one of them in a caller's thread
  bool stop_ = false;
  std::atomic<std::int64_t> mean_ns_{0};  // of a query, over the last few
  std::vector<std::thread> workers_;
};

}  // namespace hmann
