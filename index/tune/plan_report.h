#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/progress.h"
#include "index/tune/build_estimate.h"
#include "index/tune/placement_choices.h"

namespace hmann {

/// What is to be planned, as a user says it.
struct PlanInput {
  std::string index;    ///< finished index; empty: what `build` would make
  std::string queries;  ///< sample of queries for `index`; empty: its vectors, left out in turn
  std::string profile;  ///< device file; empty: figures of a usual machine
  BuildOptions build;   ///< of `base`, or of `rows` vectors that there are not yet, of `dim` and of
                        ///< its dtype, by default u8
  std::uint32_t dim = 0;
  bool as_is = false;  ///< `index` keeps its structure, and is opened to see that the plan fits
  PlanRequest
      request;  ///< memory, tiers, threads, and what is pinned; the rest follows from the above
};

struct PlanReport {
  PlanRequest request;  ///< complete
  PlacementPlan plan;
  BuildEstimate build;
  std::vector<std::string> warnings;  ///< a device file of another machine
};

/// Plans, and says what the build would take. A finished index tells its work by a sample
/// of queries (SampleCounts). Errors: those of the files, SampleCounts and PlanAgainst;
/// INVALID_ARGUMENT where nothing says what will be indexed.
absl::StatusOr<PlanReport> ReportPlan(const PlanInput& input, Progress& progress);

/// The plan and the rules of thumb with other amounts of memory.
struct PlanCase : PlanBesideRules {
  std::string name;  ///< "10 % of the file in fast memory"
};

/// As given; with a GiB more of each memory; with 5, 10, 20 and 40 % of the plan's file
/// in fast memory.
std::vector<PlanCase> ExplainPlan(const PlanReport& report);
/// The share of a query's time that one more GiB of fast memory saves, of ExplainPlan's
/// cases; absent where nothing fits without it.
std::optional<double> WorthOfAGiB(const std::vector<PlanCase>& cases);

/// What some fast memory buys.
struct FastMemoryPoint : PlanBesideRules {
  std::optional<PlacementPlan> as_is;  ///< the index with its structure; absent: does not fit
};
struct FastMemoryCurve {
  std::string slow;  ///< tier that it is planned for
  PlanShape shape;
  std::vector<FastMemoryPoint> points;  ///< from a fiftieth of the index file's bytes in fast
                                        ///< memory to more than all of them
  std::vector<std::string> warnings;
};

/// The predicted time of a query on a finished index over the fast memory that it is
/// given, with L0 on `slow`; on an nvme where the planner can tell nothing of that: L0 in
/// DRAM leaves no choice, and a tier may be missing in the device file. `queries` and
/// `profile` as in PlanInput. Errors: those of the files and of SampleCounts.
absl::StatusOr<FastMemoryCurve> PlanOverFastMemory(const std::string& index,
                                                   const std::string& queries,
                                                   const std::string& profile,
                                                   const std::string& slow, Progress& progress);

}  // namespace hmann
