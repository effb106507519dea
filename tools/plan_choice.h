/// What `plan`, `build` and `promote` have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "index/tune/plan_structure.h"
#include "index/tune/tune.h"

namespace hmann {

/// " --promote 0.16 --bits 2 --replicas 1": the flags of `build` and `promote` that give
/// it.
std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure);

/// What a promotion changes; what is not given stays as the index has it.
struct Promotion {
  std::optional<std::uint32_t> bits, replicas;

  /// Into `build`, whose `from_index` is described by `before`; where the rule chooses
  /// (`planned`), what it must leave as it is goes into `plan`.
  void Complete(const IndexInfo& before, bool planned, BuildOptions* build,
                PlanOptions* plan) const;
};

/// Declares --fast-memory, which it returns, and --slow on `app`; `plan` must outlive it.
CLI::Option* AddPlanOptions(CLI::App& app, PlanOptions* plan);

/// `build` as Plan returns it; what it chose, on stderr.
absl::StatusOr<BuildOptions> PlanAloud(const BuildOptions& build, const PlanOptions& plan);

}  // namespace hmann
