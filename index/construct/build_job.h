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
  std::string work;                 ///< the work folder, which records what is built
  std::string stage;                ///< "l0-lead": one of StageNames
  std::size_t first = 0, last = 0;  ///< jobs [first, last)
  int threads = 0;                  ///< 0: UsableCores()
  std::uint64_t memory = 0;         ///< bytes that this process may take; 0: the available memory
  const std::atomic<bool>* cancelled = nullptr;
};

/// Makes the jobs that are not made yet, for a build that continues in another process,
/// now or later. Any number of processes may run at once, even on the same job. Errors:
/// INVALID_ARGUMENT for a stage or a job that does not exist; UNAVAILABLE where an
/// earlier stage is not done yet; FAILED_PRECONDITION where the base has changed since,
/// or for another instruction set; those of files.
absl::Status RunBuildJob(const BuildJobOptions& options, Progress& progress);

}  // namespace hmann
