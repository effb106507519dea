/// Compares hmann on an emulated slow tier with HNSW on the same tier, and with what
/// hardware and operating systems do with two memories.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "index/tune/plan_structure.h"

namespace hmann::eval {

/// The terms are equal: baselines get as many bytes of fast memory per vector and as many
/// queries in flight.
struct TierBenchmark {
  std::string emulated = "lat=300ns";  ///< of the slow tier (index/tiers/emulation.h)
  /// Bytes of fast memory per vector, one set of rows each. hmann's structure is
  /// StructureForBytes of them, with codes for the quantized mode and without for the
  /// others. The models of hardware and operating system get them as DRAM.
  std::vector<double> fast_bytes = {27, 75};
  /// hnswlib's index file of the base. hmann then also runs over that graph. "": hmann
  /// runs only over its own graph.
  std::string baseline_graph;
  /// The ladder of every curve: ef for HNSW, ef_l0 for graph, ef_l1 for multi-start.
  std::vector<int> widths = {20, 40, 60, 80, 120, 160, 240, 320};
};

/// Adds the systems and their curves for vectors of `shape`: on the slow tier, in DRAM,
/// and aside at +0 ns, which shows the cost of the emulation itself. hmann runs with and
/// without prefetching. Errors: INVALID_ARGUMENT for settings that the tier does not
/// know, or that add nothing; those of BuiltinSystem and StructureForBytes.
absl::Status AddTiers(const TierBenchmark& comparison, const PlanShape& shape,
                      Benchmark* benchmark);

/// Builds or finds hnswlib's graph of the job, for TierBenchmark::baseline_graph. Errors:
/// of the system.
absl::StatusOr<std::string> BuildBaselineGraph(const BenchmarkData& job);

}  // namespace hmann::eval
