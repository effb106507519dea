#include "index/tune/plan_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/hmann.h"

namespace hmann {
namespace {

absl::StatusOr<PlanStructure> StructureOf(const std::string& index) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  if (info.layers.size() < 2)
    return absl::FailedPreconditionError(
        absl::StrCat(index, ": nothing is promoted, so there is nothing to place"));
  return PlanStructure{static_cast<NodeId>(info.layers[1].nodes), info.codes.bits,
                       std::max(info.codes.replicas, 1u)};
}

absl::Status Complete(const PlanInput& input, PlanRequest& request) {
  if (!input.index.empty()) {
    BuildOptions promotion;
    promotion.from_index = input.index;
    HMANN_ASSIGN_OR_RETURN(request.shape, ShapeOf(promotion));
    if (input.as_is) {
      HMANN_ASSIGN_OR_RETURN(request.finished, StructureOf(input.index));
    }
  } else if (!input.build.base.empty()) {
    HMANN_ASSIGN_OR_RETURN(request.shape, ShapeOf(input.build));
  } else if (input.build.rows == 0 || input.dim == 0) {
    return absl::InvalidArgumentError(
        "expected an index, or --base, or --rows and --dim of what will be indexed");
  } else {
    request.shape =
        ShapeOf(input.build, input.build.rows, input.dim, input.build.dtype.value_or(DType::kU8));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanReport> ReportPlan(const PlanInput& input) {
  PlanReport report{.request = input.request, .plan = {}, .build = {}};
  HMANN_RETURN_IF_ERROR(Complete(input, report.request));
  HMANN_ASSIGN_OR_RETURN(report.plan, PlanPlacement(report.request));
  HMANN_ASSIGN_OR_RETURN(
      report.build,
      EstimateBuild(report.request.shape, report.plan.structure, report.request.threads,
                    input.index.empty() ? report.request.fast_bytes : 0));
  return report;
}

}  // namespace hmann
