/// How everything grows with the number of vectors: indexes of several sizes with equal
/// bytes of fast memory a vector, built and searched on the tiers that they are for, at
/// equal recall.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/resample.h"
#include "eval/disk.h"
#include "eval/sweep.h"
#include "index/base/progress.h"
#include "index/tune/tune.h"

namespace hmann {

struct ScaleOptions {
  /// base, queries (query_rows: at most so many of them), metric, m, ef_construction, k,
  /// threads of the builds, folder, cancelled, run_timeout.
  ContestantJob job;
  /// Vectors of each index, ascending. Up to the base's own number they are its first
  /// ones; beyond, they are made up of all of it (Resample), and so are their queries.
  std::vector<std::uint64_t> sizes;
  /// Of a vector, each an index of every size, of the structure that the planner chooses
  /// for goal_rows vectors with so many bytes each.
  std::vector<double> fast_bytes = {43, 86};
  std::vector<std::string> walks = {"quantised", "best-first"};
  std::vector<std::string> tiers = {"dram", "nvme"};  ///< of L0; nvme: inside a memory limit
  /// Bytes of a search on nvme, page cache included; absent: ScaleMemoryLimit.
  std::optional<std::uint64_t> memory_limit;
  std::uint64_t build_memory = 0;  ///< that a build may take; 0: all that there is
  std::uint64_t learn = 500;       ///< of the queries, the first: dials are chosen on them
  int rounds = 1;
  std::vector<double> targets = {0.9, 0.95, 0.99};
  std::vector<RunShape> shapes = {{1, 1}, {2, 8}};  ///< the first is what growth is read of
  ResampleOptions resample;                 ///< parts, near, share, seed; the rest is filled in
  DiskOptions disk;                         ///< `time` of each depth
  ProfileOptions machine;                   ///< how its DRAM is measured beside each size
  bool keep = false;                        ///< vectors and indexes of a size that is done
  std::uint64_t goal_rows = 1'000'000'000;  ///< vectors that growth is extrapolated to
  std::uint64_t goal_fast_memory = std::uint64_t{96} << 30;

  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// What a search of so many vectors on nvme may take where nobody says: its fast bytes,
/// a tenth more, and 64 MiB.
std::uint64_t ScaleMemoryLimit(std::uint64_t n, double fast_bytes);

/// Does the sizes that <folder>/scale.jsonl does not have yet, a line each, and gives
/// ScaleFigures of all. The file's first line says what all of them follow from; vectors
/// and indexes of a size lie in <folder>/size-N until it is done, and what is there of an
/// interrupted run is used. `say` gets a line for the eye now and then.
///
/// Errors: INVALID_ARGUMENT; FAILED_PRECONDITION for a folder of something else, or whose
/// first line differs, naming the difference; RESOURCE_EXHAUSTED before the work for a
/// disk without room; those of Resample, ExactNeighbours, Build, RunSweep, RunDiskSweep;
/// CANCELLED.
absl::StatusOr<Json> RunScale(const ScaleOptions& options, Progress& progress,
                              const std::function<void(const std::string&)>& say);

}  // namespace hmann
