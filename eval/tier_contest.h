/// hmann on a slow tier that is emulated, beside HNSW on the same, and beside what
/// hardware and operating systems do with two memories.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "index/tune/plan_structure.h"

namespace hmann::eval {

/// On equal terms: rivals have as many bytes of fast memory a vector, and as many queries
/// in flight.
struct TierContest {
  std::string emulated = "lat=300ns";  ///< the slow tier's settings (index/tiers/emulation.h)
  /// Of fast memory a vector, rows each: hmann's structure is StructureForBytes of them,
  /// with codes for the quantised walk and without for the others; the models of hardware
  /// and operating system have them as DRAM.
  std::vector<double> fast_bytes = {27, 75};
  /// hnswlib's index file, of the base: hmann is shown over that graph as well. "": only
  /// over its own.
  std::string rival_graph;
  /// The ladder of every curve: ef of HNSW, ef_l0 of best-first, ef_l1 of multi-start.
  std::vector<int> widths = {20, 40, 60, 80, 120, 160, 240, 320};
};

/// Fills in who takes part, with vectors of `shape`, in curves: on the slow tier, in
/// DRAM, and aside at +0 ns, which shows what the emulation itself costs; hmann fetching
/// ahead, and not. Errors: INVALID_ARGUMENT for settings that the tier does not know, or
/// that add nothing; those of OwnContestant and StructureForBytes.
absl::Status AddTiers(const TierContest& contest, const PlanShape& shape, Benchmark* benchmark);

/// Builds hnswlib's graph of the job, or finds it, for TierContest::rival_graph. Errors:
/// of the contestant.
absl::StatusOr<std::string> BuildRivalGraph(const ContestantJob& job);

}  // namespace hmann::eval
