#include "tools/plan_choice.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/flags.h"

namespace hmann {

std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure) {
  const std::string promote = absl::StrFormat(" --promote %.10g", ShareOf(shape, structure.n1));
  if (structure.bits == 0) return absl::StrCat(promote, " --bits 0");
  return absl::StrCat(promote, " --bits ", structure.bits, " --replicas ", structure.replicas);
}

void Promotion::Complete(const IndexInfo& before, bool planned, BuildOptions* build,
                         PlanOptions* plan) const {
  if (build->out.empty()) build->out = build->from_index;
  if (!build->promote.has_value() && !planned) build->promote = before.promote;
  build->bits = bits.value_or(before.codes.bits);
  build->replicas = replicas.value_or(std::max(before.codes.replicas, 1u));
  if (!planned) return;
  plan->bits = bits;
  plan->replicas = replicas;
}

CLI::Option* AddPlanOptions(CLI::App& app, PlanOptions* plan) {
  app.add_option("--slow", plan->slow,
                 "with --fast-memory: the tier that L0 will lie on, as `plan` takes it")
      ->capture_default_str();
  return AddParsed<std::uint64_t>(
      app, "--fast-memory", ParseSize,
      [plan](std::uint64_t bytes) { plan->fast_memory_bytes = bytes; },
      "instead of --promote: what `plan` makes of so much fast memory, as 96GiB: bits of codes "
      "that no flag says, and as many promoted nodes as fit");
}

absl::StatusOr<BuildOptions> PlanAloud(const BuildOptions& build, const PlanOptions& plan) {
  HMANN_ASSIGN_OR_RETURN(PlannedBuild planned, Plan(build, plan));
  const PlannedPlacement& placement = planned.placement;
  std::cerr << "planned for " << FormatSize(plan.fast_memory_bytes) << ": " << placement.structure;
  if (placement.slow == "dram") std::cerr << ", L0 in DRAM as well (--slow dram)";
  if (placement.cache_bytes > 0)
    std::cerr << ", and a cache (--cache static --cache-size " << (placement.cache_bytes >> 10)
              << "KiB)";
  std::cerr << "; `hmann plan --explain` says why\n";
  return std::move(planned.build);
}

}  // namespace hmann
