#include "index/tune/plan_report.h"

#include <algorithm>
#include <memory>

#include "hmann/hmann.h"
#include "index/base/buffer.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

absl::StatusOr<PlanStructure> StructureOf(const std::string& index) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  if (info.layers.size() < 2)
    return FailedPrecondition(index, ": nothing is promoted, so there is nothing to place");
  return PlanStructure{static_cast<NodeId>(info.layers[1].nodes), info.codes.bits,
                       std::max(info.codes.replicas, 1u)};
}

absl::StatusOr<PlanShape> ShapeOf(const PlanInput& input) {
  const BuildOptions& build = input.build;
  if (!build.from_index.empty() || !build.base.empty() || build.vectors.data != nullptr)
    return ShapeOf(build);
  if (build.rows > 0 && input.dim > 0)
    return ShapeOf(build, build.rows, input.dim, build.dtype.value_or(DType::kU8));
  return InvalidArgument(
      "expected an index, or --base, or --rows and --dim of what will be indexed");
}

/// Those of a finished index; nullptr: it has none.
absl::StatusOr<std::shared_ptr<const Attributes>> AttributesOf(const std::string& index) {
  if (index.empty()) return nullptr;
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  auto attributes = Attributes::Open(Attributes::PathOf(index), info.n, info.content_hash);
  if (absl::IsNotFound(attributes.status())) return nullptr;
  return attributes;
}

}  // namespace

absl::StatusOr<PlanReport> ReportPlan(const PlanInput& input) {
  const auto& [build, options, dim, as_is] = input;
  PlanReport report;
  PlanRequest& request = report.request;
  HMANN_ASSIGN_OR_RETURN(request.shape, ShapeOf(input));
  request.fast_bytes = options.fast_memory_bytes;
  request.slow = options.slow;
  request.threads = options.threads > 0 ? options.threads : UsableCores();
  request.promote = build.promote;
  request.bits = build.bits;
  request.replicas = build.replicas;
  if (as_is) {
    HMANN_ASSIGN_OR_RETURN(request.finished, StructureOf(build.from_index));
  }
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Attributes> attributes,
                         AttributesOf(build.from_index));
  if (attributes != nullptr) request.attribute_bytes = attributes->memory_bytes();
  HMANN_ASSIGN_OR_RETURN(report.plan, PlanMemory(request));
  if (attributes != nullptr) {
    report.plan.bytes.push_back({"attributes", "dram", attributes->memory_bytes()});
    report.plan.bytes.push_back({"attribute columns", "mapped", attributes->mapped_bytes()});
  }
  report.build_memory = request.fast_bytes;
  const auto estimate = [&] {
    return EstimateBuild(request.shape, report.plan.structure,
                         build.from_index.empty() ? report.build_memory : 0);
  };
  HMANN_ASSIGN_OR_RETURN(report.build, estimate());
  if (report.build.bounded.has_value() && report.build.bounded->base_passes == 0) {
    report.build_memory = RoundUp(report.build.bounded->least_bytes, 1_MiB);
    HMANN_ASSIGN_OR_RETURN(report.build, estimate());
  }
  return report;
}

absl::StatusOr<PlannedBuild> Plan(const BuildOptions& build, const PlanOptions& options) {
  HMANN_ASSIGN_OR_RETURN(const PlanReport report, ReportPlan({build, options}));
  const MemoryPlan& plan = report.plan;
  PlannedBuild planned{build,
                       {DescribeStructure(report.request.shape, plan.structure), plan.fast_tier,
                        plan.l0_tier, plan.cache_bytes}};
  planned.build.promote = ShareOf(report.request.shape, plan.structure.n1);
  planned.build.bits = plan.structure.bits;
  planned.build.replicas = plan.structure.replicas;
  return planned;
}

}  // namespace hmann
