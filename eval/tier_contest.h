/// hmann on a slow tier that is emulated, beside HNSW on the same, and beside what
/// hardware and operating systems do with two memories.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/figures.h"
#include "eval/sweep.h"
#include "index/tune/plan_structure.h"

namespace hmann {

/// On equal terms: rivals have as many bytes of fast memory a vector, and as many queries
/// in flight.
struct TierContest {
  std::string emulated = "lat=300ns";  ///< the slow tier's settings (index/tiers/emulation.h)
  /// Of fast memory a vector, rows each: hmann's structure is the planner's choice for
  /// them, and where that has no codes the best with codes for the quantised walk; the
  /// models of hardware and operating system have them as DRAM.
  std::vector<double> fast_bytes = {27, 75};
  std::vector<int> in_flight = {1, 4};  ///< queries of the one thread, rows each
  std::uint64_t seed = 1;               ///< of hmann's build
  /// hnswlib's index file, of the base that is swept: hmann is shown over that graph as
  /// well. "": only over its own.
  std::string rival_graph;
  std::vector<std::string> prefetch = {"ahead",
                                       "off"};  ///< hmann's; "ahead" is what it does by default
  /// The ladder of every curve: ef of HNSW, ef_l0 of best-first, ef_l1 of multi-start.
  std::vector<int> widths = {20, 40, 60, 80, 120, 160, 240, 320};

  /// Errors: INVALID_ARGUMENT for no width, bytes or queries in flight, one that cannot
  /// be, or settings that the tier does not know.
  absl::Status Validate() const;
};

/// A curve of the table: those runs of one program whose settings say so. Several curves
/// share a program, and so an index.
struct TierRow {
  std::string name;  ///< says what is emulated and what a model: "Memory Mode 10 %, model, emulated
                     ///< +300 ns"
  std::string program;          ///< contestant of the sweep
  Json match = Json::object();  ///< keys and values of its settings
  std::string kind;             ///< "measured", "emulated", "model"
  std::string rival;            ///< HNSW all slow with as many queries in flight
  std::string all_dram;         ///< the row that this one is a share of
  std::string
      without_latency;  ///< the row that is the same at +0 ns; "" of those that are not emulated
  bool aside =
      false;  ///< not a line of its own in the table: at +0 ns, or a second run of the same
};

struct TierPlan {
  std::string emulated;  ///< settings of the tier in full, with their source
  std::string label;     ///< "emulated +300 ns", as in the names of the rows
  std::vector<ContestantSpec> programs;
  std::vector<TierRow> rows;
  std::string reference;       ///< HNSW all slow, in hnswlib's own order, with the fewest in flight
  std::string own, own_again;  ///< hmann, and the same in a second process
};

/// Who takes part, with vectors of `shape`. Errors: as Validate, OwnContestant and
/// PlanForBytes.
absl::StatusOr<TierPlan> PlanTiers(const TierContest& contest, const PlanShape& shape);

/// Builds hnswlib's graph of the job, or finds it, for TierContest::rival_graph. Errors:
/// of the contestant.
absl::StatusOr<std::string> BuildRivalGraph(const ContestantJob& job);

/// The runs of the programs, as rows.
SweepResult AsTierRows(const SweepResult& result, const TierPlan& plan);

/// What ToJson gives of the rows (each contestant with `program`, `kind`, `aside` and
/// `label`, a shorter name), `noise` of the pair of hmann, and `tiers`: `emulated`
/// `reference` `own` and `rows`: `name` `kind` `fast_bytes`, `targets`: `recall` `qps`
/// `qps_mad` `ratio` `ratio_mad` (to HNSW all slow with as many queries in flight)
/// `of_all_dram` `of_all_dram_mad` `without_latency` (QPS of the row at +0 ns, which
/// shows what the emulation itself costs) `of_without_latency` `slow_reads`
/// `slow_bytes` (a query); null where a curve does not reach.
Json TierFigures(const SweepResult& result, const TierPlan& plan);

/// A table for each target.
void PrintTierTables(const Json& figures, std::ostream& out);

}  // namespace hmann
