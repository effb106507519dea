/// Options that `build`, `promote`, `plan` and commands of collections share.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "hmann/build.h"
#include "index/tune/plan_structure.h"

namespace hmann::tools {

// Each function declares options on `app`. The objects passed in must outlive `app`.

/// Declares --dtype --metric --m --method.
void AddGraphFlags(CLI::App& app, BuildOptions* build);
/// Declares --ef-construction --alpha --seed.
void AddConstructionFlags(CLI::App& app, BuildOptions* build);
/// Declares --promote (returned), --bits and --replicas.
CLI::Option* AddStructureFlags(CLI::App& app, BuildOptions* build);
/// Declares --fast-memory (returned) and --slow.
CLI::Option* AddPlanFlags(CLI::App& app, PlanOptions* plan);
/// Declares --fast-memory --slow --promote --bits --replicas --build-memory --work
/// --threads --queries --no-calibrate.
void AddBuildFlags(CLI::App& app, BuildCall* call);
/// Declares the option `name`, for a file of attributes, and --types.
void AddRowsFlags(CLI::App& app, const std::string& name, const std::string& purpose,
                  MakeAttributesOptions* rows);

/// The flags of `build` and `promote` that give `structure`, e.g. " --promote 0.16 --bits
/// 2 --replicas 1".
std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure);

}  // namespace hmann::tools
