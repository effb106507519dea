#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/tune/memory_rule.h"
#include "index/tune/tune.h"

namespace hmann {

absl::StatusOr<PlannedBuild> Plan(const BuildOptions& build, const PlanOptions& options) {
  PlanRequest request;
  HMANN_ASSIGN_OR_RETURN(request.shape, ShapeOf(build));
  request.fast_bytes = options.fast_memory_bytes;
  request.slow = options.slow;
  request.threads = options.threads > 0 ? options.threads : UsableCores();
  request.bits = options.bits;
  request.replicas = options.replicas;
  HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, PlanPlacement(request));
  PlannedBuild planned{build,
                       {DescribeStructure(request.shape, plan.structure), plan.fast_tier,
                        plan.l0_tier, plan.cache_bytes}};
  planned.build.promote = ShareOf(request.shape, plan.structure.n1);
  planned.build.bits = plan.structure.bits;
  planned.build.replicas = plan.structure.replicas;
  return planned;
}

}  // namespace hmann
