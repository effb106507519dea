/// What `build`, `promote` and `plan` have in common.
#pragma once

#include <atomic>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/tune/plan_structure.h"
#include "index/tune/tune.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What is said of a build, or of a promotion (from_index).
struct BuildCall {
  BuildOptions build;
  PlanOptions plan;  ///< with fast memory, which then says what `build` does not
  CalibrateOptions calibrate;
};

// Each declares options on `app`; what it is given must outlive that.

/// --dtype --metric --m --method --ef-construction --alpha.
void AddGraphFlags(CLI::App& app, BuildOptions* build);
/// --promote, which it returns, --bits and --replicas.
CLI::Option* AddStructureFlags(CLI::App& app, BuildOptions* build);
/// --fast-memory, which it returns, and --slow.
CLI::Option* AddPlanFlags(CLI::App& app, PlanOptions* plan);
/// --fast-memory --slow --promote --bits --replicas --build-memory --work --threads
/// --queries --no-calibrate.
void AddBuildFlags(CLI::App& app, BuildCall* call);

/// Where fast memory is given: what the rule makes of it, into call->build. `aloud`: on
/// stderr, too.
absl::Status ChooseStructure(BuildCall* call, bool aloud);
/// Builds what was chosen, until it is cancelled.
absl::StatusOr<CalibratedBuild> RunBuild(BuildCall* call, const std::atomic<bool>* cancelled,
                                         Progress& progress);
/// What `hmann build --json` says.
nlohmann::ordered_json ToJson(const CalibratedBuild& built);

/// " --promote 0.16 --bits 2 --replicas 1": the flags of `build` and `promote` that give
/// it.
std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure);

}  // namespace hmann
