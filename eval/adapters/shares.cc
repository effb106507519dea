#include "eval/adapters/shares.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
namespace {

/// One thread's part, from its start line on.
struct ThreadRun {
  absl::Status status;
  double begin = 0, end = 0, cpu = 0;
};

void RunThread(const RunShare& share, const std::function<absl::Status(const RunShare&)>& search,
               ThreadRun* run) {
  run->begin = ClockSeconds(CLOCK_MONOTONIC);
  const double cpu = ClockSeconds(CLOCK_THREAD_CPUTIME_ID);
  run->status = search(share);
  run->cpu = ClockSeconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
  run->end = ClockSeconds(CLOCK_MONOTONIC);
}

}  // namespace

absl::StatusOr<std::vector<int>> AllowedCpus() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return ErrnoError(errno, "sched_getaffinity", "this thread");
  std::vector<int> cpus;
  for (int i = CPU_SETSIZE - 1; i >= 0; --i) {
    if (CPU_ISSET(i, &allowed)) cpus.push_back(i);
  }
  return cpus;
}

absl::Status PinThisThread(std::span<const int> cpus) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int cpu : cpus) CPU_SET(cpu, &allowed);
  if (sched_setaffinity(0, sizeof allowed, &allowed) != 0)
    return ErrnoError(errno, "sched_setaffinity", absl::StrCat("cpu ", cpus[0]));
  return absl::OkStatus();
}

absl::StatusOr<RunTimes> RunShares(const RunShape& shape, const RunShare& whole,
                                   const std::vector<int>& cpus,
                                   const std::function<absl::Status(const RunShare&)>& search) {
  const auto count = static_cast<std::size_t>(shape.threads);
  std::vector<ThreadRun> runs(count);
  if (count == 1) {
    RunThread(whole, search, runs.data());
  } else {
    std::barrier<> start_line(shape.threads);
    std::vector<std::thread> threads;
    threads.reserve(count);
    const std::uint64_t queries = whole.end - whole.begin;
    for (std::size_t t = 0; t < count; ++t) {
      RunShare share = whole;
      share.thread = static_cast<int>(t);
      share.begin = whole.begin + queries * t / count;
      share.end = whole.begin + queries * (t + 1) / count;
      threads.emplace_back([&, share, t] {
        const absl::Status pinned = PinThisThread(std::span(cpus).subspan(t % cpus.size(), 1));
        start_line.arrive_and_wait();
        if (pinned.ok())
          RunThread(share, search, &runs[t]);
        else
          runs[t].status = pinned;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  RunTimes times;
  double begin = runs[0].begin, end = runs[0].end;
  for (const ThreadRun& run : runs) {
    HMANN_RETURN_IF_ERROR(run.status);
    begin = std::min(begin, run.begin);
    end = std::max(end, run.end);
    times.cpu_seconds += run.cpu;
  }
  times.seconds = end - begin;
  return times;
}

}  // namespace hmann::eval
