#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann {

/// How far a bounded build has come, seen from outside its process.
struct WorkStatus {
  struct Stage {
    std::string name;        ///< "l0-lead"
    std::uint64_t jobs = 0;  ///< 0: not known yet
    std::uint64_t made = 0;  ///< of them
    bool done = false;
  };
  bool at_work = false;       ///< a process holds the folder
  std::vector<Stage> stages;  ///< of L0, then of L1, in order
  std::uint64_t bytes = 0;    ///< of the folder
  /// Of the first stage that is not done: seconds a job, and of those that are left, by
  /// the times of its files; 0 until two are there.
  double seconds_a_job = 0, seconds_left = 0;
  /// That stage's place in `stages`; their number when all are done.
  std::size_t current = 0;
};

/// Stages of all builds, in order: "l0-lead", "l0-leaves", ...
std::vector<std::string> StageNames();

/// Reads the folder's manifest and the names of its files. Errors: NOT_FOUND where there
/// is no work folder; FAILED_PRECONDITION for one of another version.
absl::StatusOr<WorkStatus> ReadWorkStatus(const std::string& path);

}  // namespace hmann
