/// The part of a benchmark that runs: contestants in turns, and what is written of them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "eval/benchmark.h"
#include "eval/memory_places.h"
#include "hmann/machine_load.h"

namespace hmann::eval {

/// Whether others disturbed a run that took so long in all, too short a time to tell
/// counting as none. `single`: one thread searched and waited for nothing but the CPU.
bool Disturbed(const RunAnswer& answer, const OthersShare& others, double interval_seconds,
               bool single);

/// Starts every contestant, touches every index, runs all rounds; gives the lines, which
/// begin with `head`. `n`: vectors. `places`: of the contestants; as it is made where
/// there is no limit. Errors: as RunBenchmark.
absl::StatusOr<std::vector<Json>> RunInterleaved(const Benchmark& benchmark,
                                                 const GroundTruth& truth, const Json& head,
                                                 std::uint64_t n, MemoryPlaces* places,
                                                 Progress& progress, const Say& say);

}  // namespace hmann::eval
