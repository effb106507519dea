/// How everything grows with the number of vectors. Builds indexes of several sizes with
/// equal bytes of fast memory per vector, and searches them on their intended tiers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "hmann/progress.h"

namespace hmann::eval {

struct ScaleOptions {
  /// The benchmark of each size. Systems, base, places and folder are filled in per part.
  /// Growth is read from the first of `shapes`.
  Benchmark each;
  /// Vectors of each index, ascending. Sizes up to the base's own use its first rows.
  /// Larger ones are synthetic, resampled from the whole base (Resample), with their
  /// queries.
  std::vector<std::uint64_t> sizes;
  /// Per vector; each gives one index of every size (StructureForBytes, BitsForBytes).
  std::vector<double> fast_bytes = {43, 86};
  std::vector<std::string> tiers = {"dram", "nvme"};  ///< of L0; nvme: memory-limited
  std::uint64_t build_memory = 0;                     ///< limit of a build; 0: all memory

  ScaleOptions() {
    each.title = "Growth over sizes";
    each.rounds = 1;
    each.shapes = {{1, 1}, {2, 8}};
    each.warm_up_queries = 100;
  }

  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// The memory limit for a search of n vectors on nvme: its fast bytes, plus a tenth, plus
/// 64 MiB.
std::uint64_t ScaleMemoryLimit(std::uint64_t n, double fast_bytes);

/// Runs a benchmark for each size, fast bytes and tier, in its own folder below size-N.
/// Returns the lines of all, grouped by size behind a line of kind "data", and writes
/// them to <folder>/results.jsonl. A benchmark that an earlier identical run has finished
/// does not run again. A size's vectors and indexes are removed when it is done.
///
/// Errors: INVALID_ARGUMENT; those of DoneBefore, Resample, StructureForBytes and
/// RunBenchmark; CANCELLED.
absl::StatusOr<std::vector<Json>> RunScale(ScaleOptions options, Progress& progress,
                                           const Say& say);

}  // namespace hmann::eval
