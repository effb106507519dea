#include "tools/plan_choice.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {

absl::StatusOr<DeviceProfile> ProfileToPlanWith(const std::string& path) {
  if (path.empty()) return DefaultProfile();
  HMANN_ASSIGN_OR_RETURN(DeviceProfile profile, ReadProfile(path));
  if (const std::string difference = MachineDifference(profile.machine, ThisMachine()); !difference.empty()) {
    std::cerr << "warning: " << path << " is of another machine (" << difference << "): its times may not hold here\n";
  }
  return profile;
}

std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure) {
  const std::string promote = absl::StrFormat(" --promote %.10g", ShareOf(shape, structure.n1));
  if (structure.bits == 0) return absl::StrCat(promote, " --codes none");
  if (structure.codes == CodePlace::kEdge) return absl::StrCat(promote, " --codes edge --bits ", structure.bits);
  return absl::StrCat(promote, " --bits ", structure.bits, " --assign ", structure.assign);
}

void AddPlanOptions(CLI::App& app, PlanPins* pins) {
  app.add_option("--slow", pins->slow, "with --fast-memory: the tier that L0 will lie on, as `plan` takes it")->capture_default_str();
  app.add_option("--profile", pins->profile, "with --fast-memory: device file of `hmann profile` (default: figures of a usual machine)");
}

absl::Status ChooseStructure(const PlanShape& shape, const PlanPins& pins, BuildOptions* build) {
  PlanRequest request;
  request.shape = shape;
  request.fast_bytes = *build->fast_memory_bytes;
  request.slow = pins.slow;
  request.threads = UsableCores();
  request.bits = pins.bits;
  request.assign = pins.assign;
  HMANN_ASSIGN_OR_RETURN(request.profile, ProfileToPlanWith(pins.profile));
  HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, PlanPlacement(request));
  build->fast_memory_bytes.reset();
  build->promote = ShareOf(shape, plan.structure.n1);
  build->bits = plan.structure.bits;
  build->assign = plan.structure.assign;
  build->codes = plan.structure.codes;
  std::cerr << "planned for " << FormatSize(request.fast_bytes) << ": " << DescribeStructure(shape, plan.structure);
  if (plan.l0_tier == "dram") std::cerr << ", L0 in DRAM as well (--slow dram)";
  if (plan.cache_bytes > 0) std::cerr << ", and a cache (--cache static --cache-size " << (plan.cache_bytes >> 10) << "KiB)";
  std::cerr << "; `hmann plan --explain` says why\n";
  return absl::OkStatus();
}

}  // namespace hmann
