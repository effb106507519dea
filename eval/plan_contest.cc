#include "eval/plan_contest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/own_contestants.h"
#include "eval/results.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/emulation.h"
#include "index/tune/placement_choices.h"

namespace hmann {
namespace {

/// Each walk by what ends it best: on 200 thousand SIFT vectors at +300 ns, 2 and 16 %
/// promoted, the pool is never slower by epsilon than by a width, the quantised walk
/// takes turns, and nobody's front has beams or cells: these get every third width.
Json HmannLadder(const std::vector<int>& widths, Metric metric, bool codes) {
  Json settings = Json::array();
  const auto add = [&](const char* walk, int ef_l1, int ef_l0, const Json& more = Json::object()) {
    settings.push_back({{"walk", walk}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}});
    settings.back().update(more);
  };
  const bool reaches = metric != Metric::kInnerProduct;  // distances have multiples
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const int width = widths[i];
    const bool seldom =
        (widths.size() - 1 - i) % 3 == 0;  // the last, which reaches furthest, among them
    if (!reaches) add("best-first", 4, width);
    if (seldom) add("multi-start", width, 1);
    if (codes) add("quantised", 16, width, {{"nprobe", 0}});
    if (codes && seldom) add("quantised", 64, width, {{"nprobe", 128}});
  }
  if (!reaches) return settings;
  for (const double epsilon : {0.03, 0.05, 0.07, 0.09, 0.12, 0.16, 0.2, 0.3, 0.45})
    add("best-first", 1, 400, {{"epsilon", epsilon}});
  if (!codes) return settings;
  for (const double epsilon : {0.04, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3})
    add("quantised", 16, 400, {{"nprobe", 0}, {"epsilon", epsilon}});
  // A pool of estimates is worth keeping short.
  for (const double epsilon : {0.06, 0.08, 0.1, 0.13})
    add("quantised", 2, 40, {{"nprobe", 0}, {"epsilon", epsilon}});
  return settings;
}

absl::StatusOr<PlanRequest> RequestOf(const PlanContest& contest, const ContestantJob& job) {
  BuildOptions build;
  build.base = job.base;
  build.rows = job.rows;
  build.metric = job.metric;
  build.m = job.m;
  build.ef_construction = job.ef_construction;
  PlanRequest request;
  HMANN_ASSIGN_OR_RETURN(request.shape, ShapeOf(build));
  request.slow = absl::StrCat("emulated:", contest.emulated);
  if (contest.profile.has_value()) {
    request.profile = *contest.profile;
    return request;
  }
  ProfileOptions measure;
  measure.tiers = {request.slow};
  measure.shapes = {{request.shape.dtype, request.shape.dim}};
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(request.profile, MeasureProfile(measure, progress));
  return request;
}

/// The contestants and their curves, one amount of fast memory after the other.
class Lineup {
 public:
  Lineup(const PlanContest& contest, PlanRequest request)
      : contest_(contest), request_(std::move(request)) {}

  absl::Status Add(double share, std::uint64_t file_bytes) {
    const PlanBesideRules beside = CompareWithRules(
        request_, static_cast<std::uint64_t>(share * static_cast<double>(file_bytes)), 0);
    const std::string suffix = absl::StrFormat(", %.3g %%", 100 * share),
                      plan = absl::StrCat("the plan", suffix);
    HMANN_RETURN_IF_ERROR(AddHmann(plan, plan, beside.plan, beside.fast_bytes));
    HMANN_RETURN_IF_ERROR(AddHmann(absl::StrCat("upper layers first", suffix), plan, beside.layers,
                                   beside.fast_bytes));
    const Json match = {{"placement", "first-touch-queries"}, {"fast_share", share}};
    for (const int width : contest_.widths) {
      of_hnsw_.push_back(match);
      of_hnsw_.back().update({{"ef", width}, {"emulated", contest_.emulated}});
    }
    std::optional<double> predicted;
    if (beside.touch.has_value()) predicted = beside.touch->predicted_us;
    made_.curves.push_back({absl::StrCat("first touch", suffix), "HNSW", match, plan, "model",
                            beside.fast_bytes, beside.fast_bytes, "HNSW, pages in order of use",
                            predicted});
    return absl::OkStatus();
  }

  /// The last call: HNSW is one program with one index for all amounts.
  absl::StatusOr<PlanLineup> Finish() {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec hnsw, OwnContestant("hnsw-tiers", Json::object()));
    hnsw.name = "HNSW";
    hnsw.settings = std::move(of_hnsw_);
    made_.programs.push_back(std::move(hnsw));
    return std::move(made_);
  }

 private:
  absl::Status AddHmann(const std::string& name, const std::string& against,
                        const std::optional<PlacementPlan>& plan, std::uint64_t budget) {
    if (!plan.has_value()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          name, ": ", FormatSize(budget), " are too little fast memory for these vectors"));
    }
    Json build = {{"promote", ShareOf(request_.shape, plan->structure.n1)},
                  {"bits", plan->structure.bits},
                  {"replicas", plan->structure.replicas},
                  {"seed", contest_.seed},
                  {"fast", plan->fast_tier},
                  {"slow", plan->l0_tier}};
    if (plan->cache_bytes > 0)
      build.update({{"cache", "static"}, {"cache_bytes", plan->cache_bytes}});
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hmann", build));
    spec.name = name;
    spec.settings = HmannLadder(contest_.widths, request_.shape.metric, plan->structure.bits > 0);
    made_.programs.push_back(std::move(spec));
    std::string structure = DescribeStructure(request_.shape, plan->structure);
    if (plan->cache_bytes > 0)
      absl::StrAppend(&structure, ", cache ", FormatSize(plan->cache_bytes));
    made_.curves.push_back({name, name, Json::object(), against, "emulated", budget,
                            plan->used.fast, std::move(structure), plan->predicted_us});
    return absl::OkStatus();
  }

  const PlanContest& contest_;
  PlanRequest request_;
  PlanLineup made_;
  Json of_hnsw_ = Json::array();
};

Json Row(const PlanCurve& curve, const TargetFigures& at) {
  const auto inverse = [](const std::optional<double>& value, double scale) {
    return value ? Json(scale / *value) : Json(nullptr);
  };
  return {
      {"name", curve.name},
      {"kind", curve.kind},
      {"structure", curve.structure},
      {"budget_bytes", curve.budget_bytes},
      {"fast_bytes", curve.fast_bytes},
      {"predicted_us", OrNull(curve.predicted_us)},
      {"recall", at.target},
      {"mean_us", inverse(at.qps, 1e6)},
      {"of_plan", inverse(at.ratio, 1)},
      {"of_plan_mad", at.ratio ? Json(*at.ratio_mad / (*at.ratio * *at.ratio)) : Json(nullptr)}};
}

ContestantRuns RunsOf(const PlanCurve& curve, const SweepResult& result) {
  const auto runs = std::find_if(result.runs.begin(), result.runs.end(),
                                 [&](const auto& one) { return one.name == curve.program; });
  return Filter(*runs, curve.name, curve.match);
}

}  // namespace

absl::Status PlanContest::Validate() const {
  HMANN_RETURN_IF_ERROR(EmulationSpec::Parse(emulated).status());
  if (shares.empty())
    return absl::InvalidArgumentError("shares: expected at least one, found none");
  for (const double share : shares) {
    if (!(share > 0 && share < 1))
      return absl::InvalidArgumentError(
          absl::StrCat("shares: expected between 0 and 1, found ", share));
  }
  return CheckWidths(widths);
}

absl::StatusOr<PlanLineup> LineUpPlans(const PlanContest& contest, const ContestantJob& job) {
  HMANN_RETURN_IF_ERROR(contest.Validate());
  HMANN_ASSIGN_OR_RETURN(PlanRequest request, RequestOf(contest, job));
  const PlanStructure plain{static_cast<NodeId>(request.shape.n / job.m), 0, 1};
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t file_bytes, PlannedFileBytes(request.shape, plain));
  Lineup lineup(contest, std::move(request));
  for (const double share : contest.shares) HMANN_RETURN_IF_ERROR(lineup.Add(share, file_bytes));
  return lineup.Finish();
}

Json PlanFigures(const SweepResult& result, const PlanLineup& lineup) {
  SweepResult rows = result;
  rows.runs.clear();
  for (const PlanCurve& curve : lineup.curves) rows.runs.push_back(RunsOf(curve, result));
  rows.reading.reference = lineup.curves[0].name;
  Json figures = ToJson(rows);
  figures["title"] = "The plan against rules of thumb";
  figures["plan"] = Json::array();
  for (std::size_t i = 0; i < lineup.curves.size(); ++i) {
    Reading reading = rows.reading;
    reading.reference = lineup.curves[i].against;
    const ContestantFigures read = Read(rows.runs, reading)[i];
    for (const TargetFigures& at : read.targets)
      figures["plan"].push_back(Row(lineup.curves[i], at));
  }
  return figures;
}

}  // namespace hmann
