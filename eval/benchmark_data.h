/// What the answers of a benchmark are compared with.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "datasets/vector_file.h"
#include "eval/benchmark.h"
#include "hmann/progress.h"

namespace hmann::eval {

/// The base, where there is one, and what it or the finished index is of. Errors:
/// INVALID_ARGUMENT for a base of another shape than the finished index, and where
/// neither base nor ground truth are there.
absl::StatusOr<std::optional<VectorFile>> OpenBase(const Benchmark& options, DataShape* shape);

/// Their exact neighbours: those that were given, or computed once and kept beside the
/// built indexes under a name that changes when a file does.
absl::StatusOr<GroundTruth> FindTruth(const Benchmark& options,
                                      const std::optional<VectorFile>& base,
                                      const VectorFile& queries, Progress& progress,
                                      const Say& say);

}  // namespace hmann::eval
