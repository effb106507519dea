/// Memory cgroups for the contestants of a benchmark.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "eval/memory_group.h"

namespace hmann::eval {

/// As it is made: no limits.
class MemoryPlaces {
 public:
  /// Builds what is not kept yet, a program each, without a limit, and measures the drive
  /// through the first index's file; empties the page cache of all files, and makes a
  /// cgroup for each contestant, which `benchmark` is told. The limit, where it is 0, is
  /// filled in.
  static absl::StatusOr<MemoryPlaces> Make(Benchmark* benchmark, const Say& say);

  /// The "device" line; null without limits.
  const Json& device() const { return device_; }
  /// Contestant c has loaded its index. What it takes from the machine's pool of huge
  /// pages comes off its limit. Errors: RESOURCE_EXHAUSTED.
  absl::Status Loaded(std::size_t c, pid_t pid, const Say& say);
  /// "memory" lines: what each had, and took at its highest.
  std::vector<Json> Used() const;
  /// Says of an error whose memory was too small.
  absl::Status Explain(const absl::Status& status) const;

 private:
  absl::Status BuildIndexes(const Benchmark& benchmark, const Say& say);

  Json device_;
  std::vector<Json> memory_;  ///< by contestant
  std::vector<MemoryGroup> groups_;
};

}  // namespace hmann::eval
