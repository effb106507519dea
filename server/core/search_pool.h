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

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "hmann/hmann.h"
#include "index/base/errors.h"
#include "server/core/byte_account.h"
#include "server/core/registry.h"
#include "server/core/work_meter.h"

namespace hmann::server {

/// A caller of a method. Callers share the pool equally.
struct Caller {
  Caller(std::uint64_t number = 0, std::uint64_t method = 0)  // NOLINT: a number is a caller
      : number(number), method(method) {}
  std::uint64_t number, method;
};

/// The queries of one request. The request owns this object. The pool drops it when it
/// calls Complete.
class QueuedRequest {
 public:
  using Clock = std::chrono::steady_clock;

  /// `effort`: the effort of each query. `bytes`: approximate memory of the request and
  /// its reply.
  QueuedRequest(Snapshot index, std::size_t queries, const Effort& effort, std::uint64_t bytes,
                Clock::time_point deadline);
  virtual ~QueuedRequest() = default;

  /// Stops the searches of this job soon; its waiting queries do not start. Callable from
  /// any thread until Complete was called.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 protected:
  const Snapshot& index() const { return index_; }
  /// When a thread took its first query. To be called once one has.
  Clock::time_point started() const { return started_; }
  std::size_t queries() const { return queries_; }
  /// True if the job is small enough to run on the thread that read it from the socket,
  /// which must not wait.
  virtual bool IsNarrow() const { return false; }
  /// Queries that one thread may take together. It computes for one while others wait for
  /// memory or a device.
  virtual std::size_t Together() const { return 1; }
  /// Answers queries [begin, end), which one thread took together. Several threads call
  /// this at once for different queries.
  virtual absl::Status Answer(std::size_t begin, std::size_t end, AnySearcher& searcher,
                              const SearchLimits& limits) = 0;
  /// Called when all queries are answered (OK) or one failed, with the error of the first
  /// part that has one. No thread touches the job any more, so it may be deleted.
  virtual void Complete(const absl::Status& status) = 0;

 private:
  friend class SearchPool;
  bool Dead() const {
    return failed_at_.load(std::memory_order_relaxed) != FirstError::kNone ||
           cancelled_.load(std::memory_order_relaxed);
  }
  /// Keeps the error of the part that begins at `query`, unless an earlier one has one.
  void Fail(std::size_t query, const absl::Status& status);
  /// The estimated work of its queries that no thread has taken yet.
  std::chrono::nanoseconds Left() const { return one_ * (queries_ - next_); }

  const Snapshot index_;
  const std::size_t queries_;
  const Effort effort_;
  const std::uint64_t bytes_;
  const Clock::time_point deadline_;
  std::atomic<bool> cancelled_{false};
  /// The first query of the part that failed.
  std::atomic<std::uint64_t> failed_at_{FirstError::kNone};
  std::size_t next_ = 0;  // guarded, with the next three, by the pool's mutex
  Clock::time_point started_;
  std::chrono::nanoseconds one_{0};  // estimate per query, made at Submit
  Caller caller_;
  std::atomic<std::size_t> unfinished_;  // queries
  std::mutex mutex_;
  FirstError error_;  // guarded by mutex_
};

/// The jobs that wait for a pool or run in it.
struct PoolLoad {
  struct Lane {
    std::size_t jobs = 0;              ///< waiting, wholly or in part
    std::chrono::nanoseconds work{0};  ///< estimate, waiting plus running
    int busy = 0;                      ///< running searches
  };
  Lane quick, bulk;
  std::uint64_t bytes = 0;  ///< of the account: requests and replies, approximate
};

/// Limits on what may wait for a pool.
struct PoolBounds {
  std::size_t queue = 256;                                  ///< jobs per lane, even in part
  std::uint64_t bytes = 1 << 30;                            ///< of all accepted jobs
  std::chrono::nanoseconds work = std::chrono::minutes(1);  ///< of one job, estimated
  ByteAccount* account = nullptr;  ///< counts the bytes of others, too; outlives the pool
};

/// The search threads of a server, in two lanes, so that short requests never wait for
/// long ones. Each lane has as many threads as there are cores to search on. A job of 2
/// ms of work or less goes to the quick lane, all others to the bulk lane. When both
/// lanes want a core, the kernel gives the bulk threads a third of the quick threads'
/// share (`nice`).
///
/// Within a lane, the job with the earliest deadline gets all threads. Under overload,
/// some batches are then answered in time instead of all of them late. A job is accepted
/// only if its work and the work before it will be done by its deadline, with a twentieth
/// of the time to spare. The jobs behind it must also stay in time. An idle lane accepts
/// any job, whatever the estimate says; that is how estimates become right. When not
/// every job fits, callers share equally: the caller with the most waiting work gives up
/// jobs not yet started to one with less. A job whose deadline passed, or whose client
/// went away, is dropped.
///
/// Thread safety: all methods may be called from any thread.
class SearchPool {
 public:
  /// `threads`: per lane.
  SearchPool(int threads, const PoolBounds& bounds);
  /// Every job must have finished.
  ~SearchPool();
  SearchPool(const SearchPool&) = delete;
  SearchPool& operator=(const SearchPool&) = delete;

  int threads() const { return threads_; }
  PoolLoad load() const;

  /// Accepts a job of a caller. Its Complete will be called, possibly with OVER_SHARE. On
  /// errors Complete is not called: RESOURCE_EXHAUSTED with QUEUE_FULL, MEMORY_FULL or
  /// NO_TIME and a delay estimated from the waiting work; or WORK_TOO_LARGE, without a
  /// delay.
  absl::Status Submit(QueuedRequest* job, Caller caller = {});

  /// True if a job was refused in the last two seconds.
  bool RefusesSome() const;
  /// Whether to read a request now. A caller whose job was refused in the last two
  /// seconds is assumed to ask for the least that it asked for lately by the same method.
  /// Returns false if Submit would refuse that.
  bool MayHaveRoom(Caller caller, QueuedRequest::Clock::time_point deadline);

  /// Answers a narrow job in the calling thread if `here` is set and TryRunHere succeeds,
  /// else submits it. Its Complete is called, also with the error of Submit.
  void Start(QueuedRequest* job, absl::FunctionRef<Caller()> caller, bool here = true);

  /// Answers a job of one query in the calling thread, which saves two hand-overs. It
  /// does so only if nothing waits in the quick lane and one of its threads is idle; that
  /// thread stays idle meanwhile. At most one job runs this way at a time, because the
  /// callers are the few threads that poll the sockets. Returns false if it did nothing.
  bool TryRunHere(QueuedRequest* job);

 private:
  struct Work {
    QueuedRequest* job = nullptr;
    std::size_t begin = 0, end = 0;
    std::chrono::nanoseconds estimate{0};
  };

  /// What a job asks for.
  struct Demand {
    Caller caller;
    QueuedRequest::Clock::time_point deadline;
    std::chrono::nanoseconds one, all;  // estimates: a query, and all that are left
    std::uint64_t bytes;
  };
  /// A caller since a refusal.
  struct Refused {
    void Roll(QueuedRequest::Clock::time_point now);
    Demand least{}, before{};  ///< the least of this window (max: none) and of the one before
    QueuedRequest::Clock::time_point since{}, last{};  ///< of the window; the last refusal
    int unread = 0;  ///< in this window, requests that are about to be read
  };

  struct Lane {
    std::deque<QueuedRequest*> jobs;      // with queries left, by deadline
    std::chrono::nanoseconds running{0};  // estimates of what threads took
    int busy = 0;                         // running searches, here or in its threads
    std::condition_variable wake;
  };

  void Loop(Lane& lane);
  Work Take(Lane& lane);
  /// Returns true if this finished the job, which is gone by then.
  static bool Run(const Work& work);
  void Release(Lane& lane, bool here, const Work& work, std::uint64_t bytes);
  bool CannotBeDone(const Lane& lane, const QueuedRequest& job) const;
  static void Insert(Lane& lane, QueuedRequest* job);
  static Demand DemandOf(const QueuedRequest& job);
  Lane& LaneOf(const Demand& demand);
  void Count(std::int64_t bytes);
  void Remember(const Demand& demand, bool refused);
  absl::Status Admit(const Lane& lane, const Demand& demand) const;
  absl::Status AdmitWithShares(Lane& lane, const Demand& demand,
                               std::vector<QueuedRequest*>* give_way);
  void TakeBack(Lane& lane, std::vector<QueuedRequest*>& given_way);
  static QueuedRequest* ToGiveWay(const Lane& lane, const Demand& demand);
  std::chrono::nanoseconds Late(const Lane& lane, const Demand& demand) const;
  std::chrono::nanoseconds RetryDelay(const Lane& lane) const;

  const int threads_;
  const PoolBounds bounds_;
  ByteAccount own_;  ///< without one in bounds_
  ByteAccount& account_;
  mutable std::mutex mutex_;
  Lane quick_, bulk_;
  std::uint64_t bytes_ = 0;                              // of submitted jobs that are not complete
  absl::flat_hash_map<std::uint64_t, Refused> refused_;  // by caller and method
  std::atomic<QueuedRequest::Clock::rep> last_refusal_{0};  // of any caller, in ticks
  bool here_ = false;                                       // a search runs in a caller's thread
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace hmann::server
