#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "hmann/progress.h"

namespace hmann {

/// Some jobs of a stage of a bounded build.
struct BuildJobOptions {
  std::string work;                 ///< its folder, which says what is built
  std::string stage;                ///< "l0-lead": one of StageNames
  std::size_t first = 0, last = 0;  ///< jobs [first, last)
  int threads = 0;                  ///< 0: UsableCores()
  std::uint64_t memory = 0;         ///< bytes that this process may take; 0: what is there
  const std::atomic<bool>* cancelled = nullptr;
};

/// Makes them, if they are not made: for a build that goes on in another process, or that
/// will. Any number of processes may be at work, on one job, too. Errors:
/// INVALID_ARGUMENT for a stage or a job that is not; FAILED_PRECONDITION where an
/// earlier stage is not done, where the base has changed since, for another instruction
/// set; those of files.
absl::Status RunBuildJob(const BuildJobOptions& options, Progress& progress);

}  // namespace hmann
