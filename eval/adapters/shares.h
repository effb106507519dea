#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/adapters/adapter.h"

namespace hmann::eval {

/// CPUs that this thread may use, the last first.
absl::StatusOr<std::vector<int>> AllowedCpus();
/// Errors: as sched_setaffinity(2).
absl::Status PinThisThread(int cpu);

/// What a run took.
struct RunTimes {
  double seconds =
      0;  ///< wall, from the moment when all threads stand ready to the end of the last
  double cpu_seconds = 0;  ///< of all searching threads together
};

/// Splits `whole` evenly among shape.threads threads, which start together, each pinned
/// to one of `cpus` in turn, and lets each do its share by `search`. One thread: the
/// calling one, pinned already. Errors: the first that a thread met.
absl::StatusOr<RunTimes> RunShares(const RunShape& shape, const RunShare& whole,
                                   const std::vector<int>& cpus,
                                   const std::function<absl::Status(const RunShare&)>& search);

}  // namespace hmann::eval
