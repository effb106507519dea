/// The running part of a benchmark: systems take turns, and their runs become lines.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "eval/benchmark.h"
#include "eval/memory_places.h"
#include "hmann/machine_load.h"

namespace hmann::eval {

/// Whether other processes disturbed a run of `interval_seconds` in all. An interval too
/// short to tell counts as undisturbed. `single`: one thread searched and waited only for
/// the CPU.
bool Disturbed(const RunAnswer& answer, const OthersShare& others, double interval_seconds,
               bool single);

/// Starts every system, touches every index, runs all rounds, and returns the lines,
/// which begin with `head`. `n`: number of vectors. `places`: of the systems;
/// default-constructed if there is no limit. Errors: as RunBenchmark.
absl::StatusOr<std::vector<Json>> RunInterleaved(const Benchmark& benchmark,
                                                 const GroundTruth& truth, const Json& head,
                                                 std::uint64_t n, MemoryPlaces* places,
                                                 Progress& progress, const Say& say);

}  // namespace hmann::eval
