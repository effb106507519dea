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

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "hmann/hmann.h"
#include "server/core/registry.h"
#include "server/core/work_meter.h"

namespace hmann::server {

/// The queries of one request. Owned by the request; the pool lets go of it when it calls
/// Complete.
class SearchJob {
 public:
  using Clock = std::chrono::steady_clock;

  /// `effort`: of each query. `bytes`: memory that the request and its reply take, about.
  SearchJob(Snapshot index, std::size_t queries, const Effort& effort, std::uint64_t bytes,
            Clock::time_point deadline);
  virtual ~SearchJob() = default;

  /// Stops the walks of this job soon; what waits is not begun. Any thread, until
  /// Complete was called.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 protected:
  const Snapshot& index() const { return index_; }
  std::size_t queries() const { return queries_; }
  /// Small enough for the thread that read it from the socket, which must not wait.
  virtual bool IsNarrow() const { return false; }
  /// Queries that a thread may take together, so that it computes for one while memory or
  /// a device is waited for by the others.
  virtual std::size_t Together() const { return 1; }
  /// Answers queries [begin, end), which one thread took together; several threads at
  /// once, each with others.
  virtual absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                              const SearchLimits& limits) = 0;
  /// All queries are answered (OK), or one failed: the error of the first that did. No
  /// thread touches the job any more; it may be deleted.
  virtual void Complete(const absl::Status& status) = 0;

 private:
  friend class SearchPool;
  bool Dead() const {
    return failed_.load(std::memory_order_relaxed) || cancelled_.load(std::memory_order_relaxed);
  }
  void Fail(absl::Status status);
  /// What its queries that no thread has taken yet will take, as estimated.
  std::chrono::nanoseconds Left() const { return one_ * (queries_ - next_); }

  const Snapshot index_;
  const std::size_t queries_;
  const Effort effort_;
  const std::uint64_t bytes_;
  const Clock::time_point deadline_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> failed_{false};
  std::size_t next_ = 0;             // this and the next two: guarded by the pool's mutex
  std::chrono::nanoseconds one_{0};  // what a query takes, as estimated when it was taken
  std::uint64_t caller_ = 0;
  std::atomic<std::size_t> unfinished_;  // queries
  std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
};

/// What waits for a pool, and runs in it.
struct PoolLoad {
  struct Lane {
    std::size_t jobs = 0;              ///< that wait, wholly or in part
    std::chrono::nanoseconds work{0};  ///< that they and those that run will take, as estimated
    int busy = 0;                      ///< searches that run
  };
  Lane quick, bulk;
  std::uint64_t bytes = 0;  ///< of requests taken and their replies, about
};

/// What may wait for a pool.
struct PoolBounds {
  std::size_t queue = 256;                                  ///< jobs of a lane, wholly or in part
  std::uint64_t bytes = 1 << 30;                            ///< of all jobs taken
  std::chrono::nanoseconds work = std::chrono::minutes(1);  ///< of one job, as estimated
};

/// The threads that search for a server, in two lanes, each with as many threads as there
/// are cores to search on, so that short requests never wait for long ones: a job of 2 ms
/// of work or less is in the quick lane; all others are in the bulk lane, whose threads
/// the kernel gives a third of what it gives the quick one's when both want a core
/// (`nice`).
///
/// Within a lane the job with the earliest deadline has all threads, so that under too
/// much work some batches are answered in time, instead of all of them late. A job is
/// taken only when its work, and that of those before it, will be done by its deadline,
/// with a twentieth of the time to spare, and when those behind it are still in time.
/// What an idle lane gets it takes, whatever the estimate says: that is how estimates
/// become right. Where not all can be taken, callers share alike: for one who has less
/// waiting, what is not begun of the one who has most gives way. A job whose deadline
/// passed, or whose client went away, is dropped.
///
/// Thread safety: all from any thread.
class SearchPool {
 public:
  /// `threads`: of each lane.
  SearchPool(int threads, const PoolBounds& bounds);
  /// Every job must have finished.
  ~SearchPool();
  SearchPool(const SearchPool&) = delete;
  SearchPool& operator=(const SearchPool&) = delete;

  int threads() const { return threads_; }
  PoolLoad load() const;

  /// Takes the job of a caller (any number that tells them apart); its Complete will be
  /// called, perhaps with OVER_SHARE. Errors, then Complete is not called:
  /// RESOURCE_EXHAUSTED with QUEUE_FULL, MEMORY_FULL or NO_TIME and a delay, estimated
  /// from the work that waits; WORK_TOO_LARGE, without one.
  absl::Status Submit(SearchJob* job, std::uint64_t caller = 0);

  /// Answers a narrow job in the calling thread, when `here` and TryRunHere would, or
  /// else submits it. Its Complete is called, also with the error of Submit.
  void Start(SearchJob* job, absl::FunctionRef<std::uint64_t()> caller, bool here = true);

  /// Answers a job of one query in the calling thread, which saves two hand-overs, when
  /// nothing waits in the quick lane and one of its threads is idle; that thread stays
  /// idle meanwhile. At most one at a time, because the callers are the few threads that
  /// poll the sockets. False: nothing was done.
  bool TryRunHere(SearchJob* job);

 private:
  struct Work {
    SearchJob* job = nullptr;
    std::size_t begin = 0, end = 0;
    std::chrono::nanoseconds estimate{0};
  };

  struct Lane {
    std::deque<SearchJob*> jobs;  // with queries not yet taken, the earliest deadline in front
    std::chrono::nanoseconds running{0};  // estimates of what threads have taken
    int busy = 0;                         // searches that run, here or in its threads
    std::condition_variable wake;
  };

  void Loop(Lane& lane);
  Work Take(Lane& lane);
  /// True when this was the last of the job, which is gone then.
  static bool Run(const Work& work);
  void Release(Lane& lane, bool here, const Work& work, std::uint64_t bytes);
  static void Insert(Lane& lane, SearchJob* job);
  absl::Status Admit(const Lane& lane, const SearchJob& job) const;
  absl::Status AdmitWithShares(Lane& lane, const SearchJob& job, std::vector<SearchJob*>* give_way);
  static SearchJob* ToGiveWay(const Lane& lane, const SearchJob& job);
  std::chrono::nanoseconds Late(const Lane& lane, const SearchJob& job) const;
  std::chrono::nanoseconds RetryDelay(const Lane& lane) const;

  const int threads_;
  const PoolBounds bounds_;
  mutable std::mutex mutex_;
  Lane quick_, bulk_;
  std::uint64_t bytes_ = 0;  // of the jobs that Submit took and that are not complete
  bool here_ = false;        // a search runs in a caller's thread
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace hmann::server
