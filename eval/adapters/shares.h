#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/adapters/adapter.h"

namespace hmann::eval {

/// The CPUs that this thread may use, in descending order.
absl::StatusOr<std::vector<int>> AllowedCpus();
/// Lets this thread, and threads that it starts from now on, run on these CPUs. Errors:
/// as sched_setaffinity(2).
absl::Status PinThisThread(std::span<const int> cpus);

/// Times of a run.
struct RunTimes {
  double seconds = 0;      ///< wall, from when all threads are ready to the end of the last
  double cpu_seconds = 0;  ///< of all searching threads together
};

/// Splits `whole` evenly among shape.threads threads, pinned to `cpus` in turn. They
/// start together, and each calls `search` on its share. One thread: the calling one,
/// already pinned. Errors: the first error of any thread.
absl::StatusOr<RunTimes> RunShares(const RunShape& shape, const RunShare& whole,
                                   const std::vector<int>& cpus,
                                   const std::function<absl::Status(const RunShare&)>& search);

}  // namespace hmann::eval
