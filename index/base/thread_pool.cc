#include "index/base/thread_pool.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "index/base/clock.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

/// A guess: longer spins gained nothing in builds of 5,000 and 100,000 vectors.
constexpr auto kSpinTime = std::chrono::microseconds(20);

/// Tells the core that this thread is spinning.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns the value that `value` has when it is no longer `old`. Spins for kSpinTime,
/// then sleeps.
int AwaitChange(const std::atomic<int>& value, int old) {
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (const int now = value.load(std::memory_order_acquire); now != old) return now;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

/// How many more threads the system allows, up to `wanted`. OpenMP ends the process when
/// one of its threads cannot start.
int StartableThreads(int wanted) {
  std::vector<std::atomic<pid_t>> ids(static_cast<std::size_t>(wanted));
  std::vector<std::thread> started;
  std::latch counted(1);
  try {
    for (std::atomic<pid_t>& id : ids) {
      started.emplace_back([&id, &counted] {
        id = ::gettid();
        counted.wait();
      });
    }
  } catch (const std::system_error&) {
  }
  counted.count_down();
  for (std::size_t i = 0; i < started.size(); ++i) {
    started[i].join();
    // The kernel counts a thread for a little longer.
    while (::tgkill(::getpid(), ids[i], 0) == 0) std::this_thread::yield();
  }
  return static_cast<int>(started.size());
}

}  // namespace

absl::Status CheckThreads(int wanted) {
  const int startable = StartableThreads(wanted);
  return startable == wanted ? absl::OkStatus()
                             : ResourceExhausted(wanted, " threads needed, ", startable,
                                                 " can start: ", kAllowThreads);
}

/// Threads that help a caller. A worker that is late finds the loop closed.
struct ThreadPool::Team {
  static constexpr int kClosed = 1 << 30;

  explicit Team(int wanted);
  ~Team();

  void Work(int thread);
  void TakeChunks(int thread);
  void Run(std::size_t n, std::size_t chunk,
           const std::function<void(std::size_t, std::size_t, int)>& body);

  const pid_t process = ::getpid();  ///< a child by fork has none of the threads
  const int workers;
  std::latch begun{1};
  std::atomic<int> loops{0};         ///< so far, and the end of the team
  std::atomic<int> inside{kClosed};  ///< workers in the loop; from kClosed on, none may join
  std::atomic<bool> stop{false};

  // The current loop.
  const std::function<void(std::size_t, std::size_t, int)>* body = nullptr;
  std::size_t n = 0;
  std::size_t chunk = 1;
  std::atomic<std::size_t> next{0};

  std::vector<std::thread> threads;
};

ThreadPool::Team::Team(int wanted) : workers(StartableThreads(wanted)) {
  if (workers == 0) return;
#if defined(_OPENMP)
  threads.emplace_back([this] {
#pragma omp parallel num_threads(workers)
    Work(1 + omp_get_thread_num());
  });
#else
  for (int i = 1; i <= workers; ++i) threads.emplace_back([this, i] { Work(i); });
#endif
  begun.wait();  // until the region has its threads: others may not take their place
}

ThreadPool::Team::~Team() {
  stop = true;
  ++loops;
  loops.notify_all();
  for (std::thread& thread : threads) process == ::getpid() ? thread.join() : thread.detach();
}

void ThreadPool::Team::TakeChunks(int thread) {
  for (;;) {
    const std::size_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= n) return;
    (*body)(begin, std::min(n, begin + chunk), thread);
  }
}

void ThreadPool::Team::Work(int thread) {
  if (thread == 1) begun.count_down();
  for (int seen = 0; !stop; seen = AwaitChange(loops, seen)) {
    int now = inside.load();
    while (now < kClosed && !inside.compare_exchange_weak(now, now + 1)) {
    }
    if (now >= kClosed) continue;
    TakeChunks(thread);
    if (--inside == kClosed) inside.notify_one();
  }
}

void ThreadPool::Team::Run(std::size_t n, std::size_t chunk,
                           const std::function<void(std::size_t, std::size_t, int)>& body) {
  this->body = &body;
  this->n = n;
  this->chunk = chunk;
  next.store(0, std::memory_order_relaxed);
  inside = 0;
  ++loops;
  loops.notify_all();
  TakeChunks(0);
  for (int now = inside += kClosed; now != kClosed;) now = AwaitChange(inside, now);
}

thread_local std::unique_ptr<ThreadPool::Team> ThreadPool::idle_;
thread_local double ThreadPool::in_loops_ = 0;

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) {
  if (threads_ == 1) return;
  team_ = std::move(idle_);
  if (team_ == nullptr || team_->process != ::getpid() || team_->workers != threads_ - 1)
    team_ = std::make_unique<Team>(threads_ - 1);
}

ThreadPool::~ThreadPool() {
  if (team_ != nullptr) idle_ = std::move(team_);
}

void ThreadPool::ParallelFor(std::size_t n, std::size_t chunk,
                             const std::function<void(std::size_t, std::size_t, int)>& body) {
  if (team_ != nullptr && team_->workers > 0 && n > chunk) {
    const double begin = ClockSeconds(CLOCK_THREAD_CPUTIME_ID);
    team_->Run(n, chunk, body);
    in_loops_ += ClockSeconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    return;
  }
  for (std::size_t begin = 0; begin < n; begin += chunk) body(begin, std::min(n, begin + chunk), 0);
}

}  // namespace hmann
