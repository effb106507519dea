#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/construct/fast_memory.h"
#include "index/tune/placement_choices.h"
#include "index/tune/tune.h"

namespace hmann {
namespace {

/// The paper's rule for a structure that is given: the more promoted nodes, the better.
absl::StatusOr<NodeId> MostPromoted(const PlanShape& shape, const PlanStructure& structure,
                                    std::uint64_t fast_bytes, int threads) {
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(shape, structure));
  return LargestN1(FastShapeOf(header), fast_bytes, threads);
}

void Take(const PlanShape& shape, const PlanStructure& structure, BuildOptions& build) {
  build.promote = ShareOf(shape, structure.n1);
  build.bits = structure.bits;
  build.replicas = structure.replicas;
}

}  // namespace

absl::StatusOr<PlannedBuild> Plan(const BuildOptions& build, const PlanOptions& options) {
  HMANN_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(build));
  PlannedBuild planned{build, std::nullopt, {}};
  const int threads = options.threads > 0 ? options.threads : UsableCores();
  if (options.bits.has_value() || !build.from_hnswlib.empty() || !build.from_faiss.empty()) {
    PlanStructure structure{0, options.bits.value_or(build.bits),
                            options.replicas.value_or(build.replicas)};
    HMANN_ASSIGN_OR_RETURN(structure.n1,
                           MostPromoted(shape, structure, options.fast_memory_bytes, threads));
    Take(shape, structure, planned.build);
    return planned;
  }
  PlanRequest request;
  request.shape = shape;
  request.fast_bytes = options.fast_memory_bytes;
  request.slow = options.slow;
  request.threads = threads;
  request.replicas = options.replicas;
  HMANN_ASSIGN_OR_RETURN(request.profile, ProfileToPlanWith(options.profile, planned.warnings));
  HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, PlanPlacement(request));
  Take(shape, plan.structure, planned.build);
  planned.placement = {DescribeStructure(shape, plan.structure), plan.fast_tier, plan.l0_tier,
                       plan.cache_bytes, plan.predicted_us};
  return planned;
}

}  // namespace hmann
