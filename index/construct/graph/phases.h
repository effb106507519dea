#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hmann/progress.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/thread_pool.h"

namespace hmann {

/// CPU time so far of this process and of the workers it has waited for.
inline double ProcessCpuSeconds() {
  rusage workers{};
  getrusage(RUSAGE_CHILDREN, &workers);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return ClockSeconds(CLOCK_PROCESS_CPUTIME_ID) + seconds(workers.ru_utime) +
         seconds(workers.ru_stime);
}

/// The phases of a build. It shows them as they run and times them for the report.
class Phases {
 public:
  /// Both must outlive it.
  Phases(Progress& progress, std::vector<PhaseTime>& times) : progress_(progress), times_(times) {}
  void Begin(const std::string& phase, std::uint64_t total, const char* unit) {
    progress_.Start(phase, total, unit);
    cpu_begin_ = ProcessCpuSeconds();
    serial_begin_ = SerialSeconds();
    most_ = std::max(most_, memory_.TakePeak());
    noted_ = 0;
  }
  void End(const std::string& phase) {
    const std::uint64_t peak = std::max(memory_.TakePeak(), noted_);
    most_ = std::max(most_, peak);
    times_.push_back({phase, progress_.Finish(), ProcessCpuSeconds() - cpu_begin_, peak,
                      SerialSeconds() - serial_begin_});
  }
  /// Records the anonymous memory that this process and its workers were seen to take.
  void NoteAnonymous(std::uint64_t bytes) { noted_ = std::max(noted_, bytes); }
  /// Most anonymous memory so far, in and between phases.
  std::uint64_t peak_anonymous_bytes() { return most_ = std::max(most_, memory_.TakePeak()); }

 private:
  /// CPU time of this thread outside of parallel loops.
  static double SerialSeconds() {
    return ClockSeconds(CLOCK_THREAD_CPUTIME_ID) - ThreadPool::CallerSecondsInLoops();
  }

  Progress& progress_;
  std::vector<PhaseTime>& times_;
  double cpu_begin_ = 0, serial_begin_ = 0;
  MemorySampler memory_;
  std::uint64_t most_ = 0, noted_ = 0;
};

}  // namespace hmann
