/// Search on a disk inside a memory limit: hmann with L0 on tier `nvme` beside hnswlib
/// with its level 0 mapped, other programs, and the disk by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/disk.h"
#include "eval/memory_group.h"
#include "eval/sweep.h"

namespace hmann {

/// The contestants' names.
inline constexpr const char* kOnDisk = "hmann";
inline constexpr const char* kMappedRival = "hnswlib";

struct DiskSweepOptions {
  /// contestants: those of DiskContestants and any others that name an `index_file`,
  /// settings without "threads" and "in_flight"; targets: of recall@k; reference: the
  /// name of the contestant that ratios are to.
  SweepOptions sweep;
  std::vector<double> targets_at_1 = {0.95};
  std::vector<RunShape> shapes = {{1, 1}, {1, 8}, {2, 1}, {2, 8}};  ///< in flight: of hmann
  std::optional<std::uint64_t>
      memory_limit;  ///< bytes; absent: a quarter of hmann's index file + 64 MiB
  DiskOptions disk;  ///< `threads` is filled in: each of `shapes`

  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// What one contestant had of the memory that it was given.
struct LimitedMemory {
  std::string contestant, index_file;
  std::uint64_t index_file_bytes = 0;
  std::uint64_t limit_bytes = 0;
  std::uint64_t loaded_bytes = 0;  ///< of its own, no file's, once its index was loaded
  std::uint64_t peak_bytes = 0;    ///< page cache included
};

struct DiskSweepResult {
  SweepResult sweep;  ///< a contestant a row: "hmann, 1 thread, 8 in flight"
  std::vector<double> targets_at_1;
  std::string reference;
  std::vector<DiskFigures> disks;  ///< by threads
  std::uint64_t memory_limit = 0;  ///< of each contestant, bytes
  bool limit_given = false;        ///< not made of the index file's size
  int cgroup_version = 0;
  std::vector<LimitedMemory> memory;
};

/// hmann (`build`: build settings of its own) and hnswlib (integer distance where the
/// data is u8 under L2), with settings for such a sweep. Errors: as OwnContestant.
absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(DType dtype, Metric metric,
                                                            const Json& build);
/// hmann alone, on an index file that stands. Errors: of a file that cannot be read.
absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(const std::string& index);

/// Builds both indexes without a limit and lets the programs end; measures the disk
/// through hmann's index file; empties the page cache of both files; starts the programs
/// anew, each in a memory cgroup of its own, and runs the sweep: hmann in each shape,
/// hnswlib one query at a time on as many threads. Errors: those of MemoryGroup::Create,
/// MeasureDisk and RunSweep; of a program that was ended for its memory, says so.
absl::StatusOr<DiskSweepResult> RunDiskSweep(DiskSweepOptions options, Progress& progress,
                                             const std::function<void(const std::string&)>& say);

}  // namespace hmann
