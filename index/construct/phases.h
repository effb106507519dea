#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "index/base/progress.h"

namespace hmann {

/// The phases of a build: shown as they run, timed for the report.
class Phases {
 public:
  /// Both must outlive it.
  Phases(Progress& progress, std::vector<std::pair<std::string, double>>& seconds)
      : progress_(progress), seconds_(seconds) {}
  void Begin(const std::string& phase, std::uint64_t total, const char* unit) {
    progress_.Start(phase, total, unit);
  }
  void End(const std::string& phase) { seconds_.emplace_back(phase, progress_.Finish()); }

 private:
  Progress& progress_;
  std::vector<std::pair<std::string, double>>& seconds_;
};

}  // namespace hmann
