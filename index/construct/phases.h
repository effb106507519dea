#pragma once

#include <time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "index/base/progress.h"
#include "index/construct/options.h"

namespace hmann {

/// CPU time of the process so far.
inline double ProcessCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The phases of a build: shown as they run, timed for the report.
class Phases {
 public:
  /// Both must outlive it.
  Phases(Progress& progress, std::vector<PhaseTime>& times) : progress_(progress), times_(times) {}
  void Begin(const std::string& phase, std::uint64_t total, const char* unit) {
    progress_.Start(phase, total, unit);
    cpu_begin_ = ProcessCpuSeconds();
  }
  void End(const std::string& phase) {
    times_.push_back({phase, progress_.Finish(), ProcessCpuSeconds() - cpu_begin_});
  }

 private:
  Progress& progress_;
  std::vector<PhaseTime>& times_;
  double cpu_begin_ = 0;
};

}  // namespace hmann
