/// What `plan`, `build` and `promote` have in common.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "index/hmann.h"
#include "index/tune/placement_choices.h"

namespace hmann {

/// The device file; a warning on stderr if it is another machine's. Empty path: DefaultProfile.
absl::StatusOr<DeviceProfile> ProfileToPlanWith(const std::string& path);

/// " --promote 0.16 --bits 2 --assign 1": the flags of `build` and `promote` that give it.
std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure);

/// Declares --fast-memory, which it returns, --slow and --profile on `app`; `plan` must outlive it.
CLI::Option* AddPlanOptions(CLI::App& app, PlanOptions* plan);

/// `build` as Plan returns it; what it chose, on stderr.
absl::StatusOr<BuildOptions> PlanAloud(const BuildOptions& build, const PlanOptions& plan);

}  // namespace hmann
