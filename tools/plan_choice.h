/// The planner's choice, for `plan`, `build` and `promote`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/build/options.h"
#include "index/tune/placement_choices.h"

namespace hmann {

/// The device file; a warning on stderr if it is another machine's. Empty path: DefaultProfile.
absl::StatusOr<DeviceProfile> ProfileToPlanWith(const std::string& path);

/// " --promote 0.16 --bits 2 --assign 1": the flags of `build` and `promote` that give it.
std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure);

/// What a user who gave --fast-memory has left open.
struct PlanPins {
  std::optional<std::uint32_t> bits, assign;
  std::string profile;        ///< device file, or empty
  std::string slow = "nvme";  ///< where L0 is to lie
};

/// Declares --profile and --slow on `app`, a command with --fast-memory; `pins` must outlive it.
void AddPlanOptions(CLI::App& app, PlanPins* pins);

/// Fills promote, bits and assign of `build` with the planner's choice for `build->fast_memory_bytes`, which it takes away. The same
/// options, usable cores and device file give the same choice: nothing is measured. Codes by hub. Errors: those of PlanPlacement.
absl::Status ChooseStructure(const PlanShape& shape, const PlanPins& pins, BuildOptions* build);

}  // namespace hmann
