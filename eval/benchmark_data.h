/// The ground truth of a benchmark.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "datasets/vector_file.h"
#include "eval/benchmark.h"
#include "hmann/progress.h"

namespace hmann::eval {

/// Opens the base, if there is one, and fills in the shape of the base or the finished
/// index. Errors: INVALID_ARGUMENT if their shapes differ, or if there is neither base
/// nor ground truth.
absl::StatusOr<std::optional<VectorFile>> OpenBase(const Benchmark& options, DataShape* shape);

/// The rows, of n, that satisfy the benchmark's filter; {} without a filter. Tells the
/// systems: writes job.mask, and gives hmann's the filter and, unless their index is
/// finished, the attributes. Errors: as AttributesOfRows, and of the filter.
absl::StatusOr<std::vector<std::uint64_t>> FindMatches(Benchmark* benchmark, std::uint64_t n,
                                                       Progress& progress);

/// The exact neighbors of the queries, among `matches` if there is a filter: given, or
/// computed once. Computed ones are kept next to the built indexes under a name that
/// changes when a file does.
absl::StatusOr<GroundTruth> FindTruth(const Benchmark& options,
                                      const std::optional<VectorFile>& base,
                                      const VectorFile& queries,
                                      const std::vector<std::uint64_t>& matches, Progress& progress,
                                      const Say& say);

}  // namespace hmann::eval
