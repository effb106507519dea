/// What the planner chooses, beside two rules of thumb with the same fast memory: upper
/// layers first, and first touch (a model).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "eval/sweep.h"
#include "index/tune/tune.h"

namespace hmann {

struct PlanContest {
  std::vector<double> shares = {0.05, 0.1, 0.2,
                                0.4};  ///< fast memory, of the bytes of an index file without codes
  std::string emulated = "lat=300ns";  ///< the slow tier's settings (index/tiers/emulation.h)
  std::optional<DeviceProfile>
      profile;             ///< that knows this tier; absent: measured first, a few seconds
  std::uint64_t seed = 1;  ///< of the builds
  /// Of every curve's ladder, ascending: ef of HNSW, ef_l0 of the quantised walk, every
  /// third as ef_l1 of beams. Best-first is ended by epsilon, the quantised walk in turn,
  /// in steps of their own; under inner product best-first by these widths.
  std::vector<int> widths = {12, 20, 30, 40, 60, 80, 120, 200};

  /// Errors: INVALID_ARGUMENT for no share or width, one that cannot be, or settings that
  /// the tier does not know.
  absl::Status Validate() const;
};

/// A curve: one rule with one amount of fast memory.
struct PlanCurve {
  std::string name;             ///< "the plan, 5 %"
  std::string program;          ///< contestant of the sweep
  Json match = Json::object();  ///< keys and values of its settings
  std::string against;          ///< the plan's curve with the same memory
  std::string kind;             ///< "emulated", "model"
  std::uint64_t budget_bytes = 0, fast_bytes = 0;
  std::string structure;
  std::optional<double> predicted_us;
};

struct PlanLineup {
  std::vector<ContestantSpec> programs;
  std::vector<PlanCurve> curves;  ///< of each share: the plan, upper layers first, first touch
};

/// Who takes part with the vectors of `job`. Errors: those of Validate, of the file, of
/// planning and of OwnContestant; RESOURCE_EXHAUSTED naming the curve for a share in
/// which nothing can be placed.
absl::StatusOr<PlanLineup> LineUpPlans(const PlanContest& contest, const ContestantJob& job);

/// What ToJson gives of the curves and `plan`, a row for each curve and target: `name`
/// `kind` `structure` `budget_bytes` `fast_bytes` `predicted_us` (null for a model
/// without one) `recall` `mean_us` `of_plan` `of_plan_mad` (time as a multiple of the
/// plan's with the same memory; null where a curve does not reach).
Json PlanFigures(const SweepResult& result, const PlanLineup& lineup);

}  // namespace hmann
