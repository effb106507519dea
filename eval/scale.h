/// How everything grows with the number of vectors: indexes of several sizes with equal
/// bytes of fast memory a vector, built and searched on the tiers that they are for.
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
  /// What each size is run as. Contestants, base, places and folder of a part are filled
  /// in; of `shapes` the first is what growth is read of.
  Benchmark each;
  /// Vectors of each index, ascending. Up to the base's own number they are its first
  /// ones; beyond, they are made up of all of it (Resample), and so are their queries.
  std::vector<std::uint64_t> sizes;
  /// Of a vector, an index of every size each: StructureForBytes of BitsForBytes.
  std::vector<double> fast_bytes = {43, 86};
  std::vector<std::string> tiers = {"dram", "nvme"};  ///< of L0; nvme: inside a memory limit
  std::uint64_t build_memory = 0;  ///< that a build may take; 0: all that there is

  ScaleOptions() {
    each.title = "Growth over sizes";
    each.rounds = 1;
    each.shapes = {{1, 1}, {2, 8}};
    each.warm_up_queries = 100;
    each.reference.clear();
  }

  /// Errors: INVALID_ARGUMENT naming the field.
  absl::Status Validate() const;
};

/// What a search of so many vectors on nvme may take: its fast bytes, a tenth more, and
/// 64 MiB.
std::uint64_t ScaleMemoryLimit(std::uint64_t n, double fast_bytes);

/// A benchmark for each size, fast bytes and tier, in folders of its own below size-N;
/// gives the lines of all, those of a size behind a line of kind "data", and writes them
/// to <folder>/results.jsonl. A benchmark that an earlier run of the same has finished is
/// not run again. Vectors and indexes of a size are removed when it is done.
///
/// Errors: INVALID_ARGUMENT; those of Resample, StructureForBytes and RunBenchmark;
/// CANCELLED.
absl::StatusOr<std::vector<Json>> RunScale(ScaleOptions options, Progress& progress,
                                           const Say& say);

}  // namespace hmann::eval
