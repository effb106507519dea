#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann {

/// The progress of a bounded build, seen from outside its process.
struct WorkStatus {
  struct Stage {
    std::string name;        ///< "l0-lead"
    std::uint64_t jobs = 0;  ///< 0: not known yet
    std::uint64_t made = 0;  ///< jobs that are made
    bool done = false;
  };
  bool at_work = false;       ///< a process holds the folder
  std::vector<Stage> stages;  ///< of L0, then of L1, in order
  std::uint64_t bytes = 0;    ///< of the folder
  /// For the first unfinished stage: seconds per job, and for all remaining jobs, by the
  /// times of its files; 0 until two exist.
  double seconds_a_job = 0, seconds_left = 0;
  /// That stage's index in `stages`; their number if all are done.
  std::size_t current = 0;
};

/// The stages of every build, in order: "l0-lead", "l0-leaves", ...
std::vector<std::string> StageNames();

/// Reads the folder's manifest and the names of its files. Errors: NOT_FOUND if there is
/// no work folder; FAILED_PRECONDITION for one of another version.
absl::StatusOr<WorkStatus> ReadWorkStatus(const std::string& path);

}  // namespace hmann
