/// How everything grows with the number of vectors: indexes of several sizes with equal
/// bytes of fast memory a vector, built and searched on the tiers that they are for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "index/base/progress.h"

namespace hmann {

struct ScaleOptions {
  /// What each size is run as: job (base, queries, query_rows, metric, m,
  /// ef_construction, k, threads of the builds, folder, cancelled), rounds, targets,
  /// shapes (the first is what growth is read of), disk, gathers.
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

/// Does the sizes that <folder>/results.jsonl does not have yet, and gives the lines of
/// all: behind a line of kind "data" those of its benchmarks. Vectors and indexes of a
/// size lie in <folder>/size-N until it is done, and what is there of an interrupted run
/// is used. `say` gets a line for the eye now and then.
///
/// Errors: INVALID_ARGUMENT; FAILED_PRECONDITION for a folder of something else, or whose
/// first line differs, naming the difference; RESOURCE_EXHAUSTED before the work for a
/// disk without room; those of Resample, ExactNeighbours, Build, RunBenchmark; CANCELLED.
absl::StatusOr<std::vector<Json>> RunScale(const ScaleOptions& options, Progress& progress,
                                           const Say& say);

}  // namespace hmann
