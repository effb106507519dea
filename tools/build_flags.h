/// What `build`, `promote` and `plan` have in common.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "hmann/build.h"
#include "hmann/tune.h"
#include "index/report/report.h"
#include "index/tune/plan_structure.h"

namespace hmann::tools {

// Each declares options on `app`; what it is given must outlive that.

/// --dtype --metric --m --method.
void AddGraphFlags(CLI::App& app, BuildOptions* build);
/// --promote, which it returns, --bits and --replicas.
CLI::Option* AddStructureFlags(CLI::App& app, BuildOptions* build);
/// --fast-memory, which it returns, and --slow.
CLI::Option* AddPlanFlags(CLI::App& app, PlanOptions* plan);
/// --fast-memory --slow --promote --bits --replicas --build-memory --work --threads
/// --queries --no-calibrate.
void AddBuildFlags(CLI::App& app, BuildCall* call);

/// " --promote 0.16 --bits 2 --replicas 1": the flags of `build` and `promote` that give
/// it.
std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure);

}  // namespace hmann::tools
