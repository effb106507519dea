#include "index/tune/plan_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/format/tuned_table.h"
#include "index/tune/plan_index.h"

namespace hmann {
namespace {

/// Shape and work of a finished index, with L0 on request.slow.
absl::StatusOr<IndexToPlan> AskIndex(const std::string& index, const std::string& queries,
                                     PlanRequest& request, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(IndexToPlan told, DescribeIndex(index));
  request.shape = told.shape;
  HMANN_ASSIGN_OR_RETURN(request.scale,
                         SampleCounts(index, queries, request.slow.starts_with("nvme"), progress));
  return told;
}

absl::Status Complete(const PlanInput& input, PlanRequest& request, Progress& progress) {
  if (!input.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const IndexToPlan index,
                           AskIndex(input.index, input.queries, request, progress));
    if (input.as_is) request.finished = index.structure;
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

absl::StatusOr<PlanReport> ReportPlan(const PlanInput& input, Progress& progress) {
  PlanReport report{.request = input.request, .plan = {}, .build = {}, .warnings = {}};
  PlanRequest& request = report.request;
  HMANN_ASSIGN_OR_RETURN(request.profile, ProfileToPlanWith(input.profile, report.warnings));
  HMANN_RETURN_IF_ERROR(Complete(input, request, progress));
  const auto taken = [&](const PlacementPlan& plan) -> absl::StatusOr<std::uint64_t> {
    return input.as_is ? MeasureFastBytes(input.index, plan) : plan.used.fast;
  };
  HMANN_ASSIGN_OR_RETURN(report.plan, PlanAgainst(request, taken));
  HMANN_ASSIGN_OR_RETURN(
      report.build, EstimateBuild(request.shape, report.plan.structure, request.profile,
                                  request.threads, input.index.empty() ? request.fast_bytes : 0));
  return report;
}

std::vector<PlanCase> ExplainPlan(const PlanReport& report) {
  const PlanRequest& request = report.request;
  std::vector<PlanCase> cases;
  const auto add = [&](std::string name, std::uint64_t fast, std::uint64_t middle) {
    cases.push_back({CompareWithRules(request, fast, middle), std::move(name)});
  };
  add("as given", request.fast_bytes, request.middle_bytes);
  add("1 GiB more of fast memory", request.fast_bytes + 1_GiB, request.middle_bytes);
  if (request.middle_bytes > 0)
    add("1 GiB more of the middle", request.fast_bytes, request.middle_bytes + 1_GiB);
  for (const std::uint64_t percent : {5, 10, 20, 40}) {
    add(absl::StrCat(percent, " % of the file in fast memory"),
        report.plan.file_bytes * percent / 100, request.middle_bytes);
  }
  return cases;
}

std::optional<double> WorthOfAGiB(const std::vector<PlanCase>& cases) {
  if (!cases[0].plan.has_value() || !cases[1].plan.has_value()) return std::nullopt;
  return 1 - cases[1].plan->predicted_us / cases[0].plan->predicted_us;
}

absl::StatusOr<FastMemoryCurve> PlanOverFastMemory(const std::string& index,
                                                   const std::string& queries,
                                                   const std::string& profile,
                                                   const std::string& slow, Progress& progress) {
  FastMemoryCurve curve;
  PlanRequest request;
  HMANN_ASSIGN_OR_RETURN(request.profile, ProfileToPlanWith(profile, curve.warnings));
  const bool known = request.profile.Memory(slow) != nullptr ||
                     request.profile.Block(TierWithoutPath(slow)) != nullptr;
  request.slow = slow == "dram" || !known ? "nvme" : TierWithoutPath(slow);
  HMANN_ASSIGN_OR_RETURN(const IndexToPlan told, AskIndex(index, queries, request, progress));
  curve.slow = request.slow;
  curve.shape = request.shape;
  PlanRequest as_is = request;
  as_is.finished = told.structure;
  constexpr double kStep = 1.3;
  for (double share = 0.02; share < 1.6; share *= kStep) {
    as_is.fast_bytes = static_cast<std::uint64_t>(share * static_cast<double>(told.file_bytes));
    FastMemoryPoint point{CompareWithRules(request, as_is.fast_bytes, 0), std::nullopt};
    if (absl::StatusOr<PlacementPlan> same = PlanPlacement(as_is); same.ok())
      point.as_is = *std::move(same);
    curve.points.push_back(std::move(point));
  }
  return curve;
}

}  // namespace hmann
