/// The ground truth of a benchmark.
#pragma once

#include <optional>

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

/// The exact neighbors of the queries: given, or computed once. Computed ones are kept
/// next to the built indexes under a name that changes when a file does.
absl::StatusOr<GroundTruth> FindTruth(const Benchmark& options,
                                      const std::optional<VectorFile>& base,
                                      const VectorFile& queries, Progress& progress,
                                      const Say& say);

}  // namespace hmann::eval
