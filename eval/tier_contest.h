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

namespace hmann {

struct TierContest {
  std::string emulated = "lat=300ns";  ///< the slow tier's settings (index/tiers/emulation.h)
  double fast_share = 0.1;             ///< of HNSW's bytes that fit into the DRAM of the models
  double promote = 0.16;               ///< hmann's N_1 / N
  std::uint64_t seed = 1;              ///< of hmann's build
  std::vector<std::string> prefetch = {"ahead",
                                       "off"};  ///< hmann's; "ahead" is what it does by default
  /// The ladder of every curve: ef of HNSW, ef_l0 of best-first, ef_l1 of multi-start.
  std::vector<int> widths = {20, 40, 60, 80, 120, 160, 240, 320};

  /// Errors: INVALID_ARGUMENT for no width, one below 1, or settings that the tier does
  /// not know.
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
  std::string reference;  ///< the row that ratios are to: HNSW all slow, in hnswlib's own order
  std::string own, own_again;  ///< hmann, and the same in a second process
};

/// Who takes part. Errors: as Validate and OwnContestant.
absl::StatusOr<TierPlan> PlanTiers(const TierContest& contest);

/// The runs of the programs, as rows.
SweepResult AsTierRows(const SweepResult& result, const TierPlan& plan);

/// What ToJson gives of the rows (each contestant with `program`, `kind`, `aside` and
/// `label`, a shorter name), `noise` of the pair of hmann, and `tiers`: `emulated`
/// `reference` `own` and `rows`: `name` `kind` `fast_bytes`, `targets`: `recall` `qps`
/// `qps_mad` `ratio` `ratio_mad` (to the reference) `of_all_dram` `of_all_dram_mad`
/// `without_latency` (QPS of the row at +0 ns, which shows what the emulation itself
/// costs) `of_without_latency` `slow_reads` `slow_bytes` (a query); null where a curve
/// does not reach.
Json TierFigures(const SweepResult& result, const TierPlan& plan);

/// A table for each target.
void PrintTierTables(const Json& figures, std::ostream& out);

}  // namespace hmann
