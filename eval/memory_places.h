/// Memory cgroups for the systems of a benchmark.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "eval/memory_group.h"

namespace hmann::eval {

/// Default-constructed: no limits.
// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
class MemoryPlaces {
 public:
  /// Builds the missing indexes without a limit, one program each, and measures the drive
  /// through the first index's file. Then drops all files from the page cache, creates a
  /// cgroup per system, and enters the groups in `benchmark`. Fills in a limit of 0.
  static absl::StatusOr<MemoryPlaces> Make(Benchmark* benchmark, const Say& say);

  /// The "device" line; null without limits.
  const Json& device() const { return device_; }
  /// System c has loaded its index. The huge pages that it takes from the machine's pool
  /// are subtracted from its limit. Errors: RESOURCE_EXHAUSTED.
  absl::Status Loaded(std::size_t c, pid_t pid, const Say& say);
  /// "memory" lines: each system's limit and peak use.
  std::vector<Json> Used() const;
  /// Adds to an error that the memory was too small, if it was.
  absl::Status Explain(const absl::Status& status) const;

 private:
  absl::Status BuildIndexes(const Benchmark& benchmark, const Say& say);

  Json device_;
  std::vector<Json> memory_;  ///< by system
  std::vector<MemoryGroup> groups_;
};

}  // namespace hmann::eval
