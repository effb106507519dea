#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/columns.h"
#include "eval/own_contestants.h"
#include "eval/results.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/eval_flags.h"
#include "tools/plan_choice.h"

namespace hmann {
namespace {

struct PlanFlags : EvalFlags {
  std::vector<double> shares = {0.05, 0.1, 0.2, 0.4};
  std::string emulated = "lat=300ns";
  std::string profile;
  std::uint64_t seed = 1;
  std::vector<int> widths = {12, 20, 30, 40, 60, 80, 120, 200};
};

/// A curve: one rule with one amount of fast memory.
struct Line {
  std::string name;     ///< "the plan, 5 %"
  std::string program;  ///< contestant of the sweep
  Json match = Json::object();
  std::string against;  ///< the plan's line with the same memory
  std::string kind;     ///< "emulated", "model"
  std::uint64_t budget_bytes = 0, fast_bytes = 0;
  std::string structure;
  std::optional<double> predicted_us;
};

Json HmannLadder(const std::vector<int>& widths, bool sketches) {
  Json settings = Json::array();
  for (const int width : widths) {
    settings.push_back({{"walk", "pool"}, {"ef_l1", 4}, {"ef_l0", width}});
    settings.push_back({{"walk", "beams"}, {"ef_l1", width}, {"ef_l0", 1}});
    if (!sketches) continue;
    settings.push_back({{"walk", "gated"}, {"ef_l1", 16}, {"ef_l0", width}, {"cells", 0}});
    settings.push_back({{"walk", "gated"}, {"ef_l1", 64}, {"ef_l0", width}, {"cells", 128}});
  }
  return settings;
}

/// The contestants and their curves.
class PlanContest {
 public:
  explicit PlanContest(PlanFlags& flags) : flags_(flags) {}

  absl::Status Prepare() {
    const ContestantJob& job = flags_.sweep.job;
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
    PlanRequest request;
    request.shape.n = base.n();
    request.shape.dim = base.dim();
    request.shape.dtype = base.dtype();
    request.shape.metric = job.metric;
    request.shape.m = job.m;
    request.shape.ef_construction = job.ef_construction;
    request.slow = absl::StrCat("emulated:", flags_.emulated);
    HMANN_ASSIGN_OR_RETURN(request.profile, Profile(request));
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t file_bytes,
                           PlannedFileBytes(request.shape, {static_cast<NodeId>(base.n() / job.m), 0, 1, CodePlace::kHub}));
    Json of_hnsw = Json::array();
    for (const double share : flags_.shares) {
      const PlanBesideRules beside = CompareWithRules(request, static_cast<std::uint64_t>(share * static_cast<double>(file_bytes)), 0);
      const std::string suffix = absl::StrFormat(", %.3g %%", 100 * share), plan = absl::StrCat("the plan", suffix);
      HMANN_RETURN_IF_ERROR(AddHmann(plan, plan, beside.plan, request, beside.fast_bytes));
      HMANN_RETURN_IF_ERROR(AddHmann(absl::StrCat("upper layers first", suffix), plan, beside.layers, request, beside.fast_bytes));
      const Json match = {{"placement", "first-touch-queries"}, {"fast_share", share}};
      for (const int width : flags_.widths) {
        of_hnsw.push_back(match);
        of_hnsw.back().update({{"ef", width}, {"emulated", flags_.emulated}});
      }
      const std::optional<double> predicted = beside.touch.has_value() ? std::optional(beside.touch->predicted_us) : std::nullopt;
      lines_.push_back({absl::StrCat("first touch", suffix), "HNSW", match, plan, "model", beside.fast_bytes, beside.fast_bytes,
                        "HNSW, pages in order of use", predicted});
    }
    HMANN_ASSIGN_OR_RETURN(ContestantSpec hnsw, OwnContestant("hnsw-tiers", Json::object()));
    hnsw.name = "HNSW";
    hnsw.settings = std::move(of_hnsw);
    flags_.sweep.contestants.push_back(std::move(hnsw));
    return absl::OkStatus();
  }

  /// The sweep's figures of the curves, with `plan`: a row for each curve and target.
  Json Figures(const SweepResult& result) const {
    SweepResult rows = result;
    rows.runs.clear();
    for (const Line& line : lines_) {
      const auto runs = std::find_if(result.runs.begin(), result.runs.end(), [&](const auto& one) { return one.name == line.program; });
      rows.runs.push_back(Filter(*runs, line.name, [&](const Json& setting) {
        return std::all_of(line.match.items().begin(), line.match.items().end(),
                           [&](const auto& item) { return setting.contains(item.key()) && setting[item.key()] == item.value(); });
      }));
    }
    rows.reading.reference = lines_[0].name;
    Json figures = ToJson(rows);
    figures["title"] = "The plan against rules of thumb";
    figures["plan"] = Json::array();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Reading reading = rows.reading;
      reading.reference = lines_[i].against;
      const ContestantFigures read = Read(rows.runs, reading)[i];
      for (const TargetFigures& at : read.targets) figures["plan"].push_back(Row(lines_[i], at));
    }
    return figures;
  }

 private:
  absl::StatusOr<DeviceProfile> Profile(const PlanRequest& request) const {
    if (!flags_.profile.empty()) return ProfileToPlanWith(flags_.profile);
    ProfileOptions measure;
    measure.tiers = {request.slow};
    measure.shapes = {{request.shape.dtype, request.shape.dim}};
    Progress progress;
    return MeasureProfile(measure, progress);
  }

  absl::Status AddHmann(const std::string& name, const std::string& against, const std::optional<PlacementPlan>& plan,
                        const PlanRequest& request, std::uint64_t budget) {
    if (!plan.has_value()) {
      return absl::ResourceExhaustedError(absl::StrCat(name, ": ", FormatSize(budget), " are too little fast memory for these vectors"));
    }
    Json build = {{"promote", (plan->structure.n1 + 0.5) / static_cast<double>(request.shape.n)},
                  {"bits", plan->structure.bits},
                  {"assign", plan->structure.assign},
                  {"seed", flags_.seed},
                  {"fast", plan->fast_tier},
                  {"slow", plan->l0_tier}};
    if (plan->cache_bytes > 0) build.update({{"cache", "static"}, {"cache_bytes", plan->cache_bytes}});
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hmann", build));
    spec.name = name;
    spec.settings = HmannLadder(flags_.widths, plan->structure.bits > 0);
    flags_.sweep.contestants.push_back(std::move(spec));
    std::string structure = DescribeStructure(request.shape, plan->structure);
    if (plan->cache_bytes > 0) absl::StrAppend(&structure, ", cache ", FormatSize(plan->cache_bytes));
    lines_.push_back({name, name, Json::object(), against, "emulated", budget, plan->used.fast, structure, plan->predicted_us});
    return absl::OkStatus();
  }

  static Json Row(const Line& line, const TargetFigures& at) {
    const auto inverse = [](const std::optional<double>& value, double scale) { return value ? Json(scale / *value) : Json(nullptr); };
    return {{"name", line.name},
            {"kind", line.kind},
            {"structure", line.structure},
            {"budget_bytes", line.budget_bytes},
            {"fast_bytes", line.fast_bytes},
            {"predicted_us", line.predicted_us ? Json(*line.predicted_us) : Json(nullptr)},
            {"recall", at.target},
            {"mean_us", inverse(at.qps, 1e6)},
            {"of_plan", inverse(at.ratio, 1)},
            {"of_plan_mad", at.ratio ? Json(*at.ratio_mad / (*at.ratio * *at.ratio)) : Json(nullptr)}};
  }

  PlanFlags& flags_;
  std::vector<Line> lines_;
};

void PrintPlanTable(const Json& figures) {
  std::vector<std::vector<std::string>> cells = {
      {"fast memory of the index file", "", "budget", "planned", "recall", "us", "of the plan's", "+-", "predicted us"}};
  const auto number = [](const Json& value, int digits) {
    return value.is_null() ? "-" : absl::StrFormat("%.*f", digits, value.get<double>());
  };
  for (const Json& row : figures["plan"]) {
    cells.push_back({row["name"].get<std::string>(),
                     absl::StrCat(row["structure"].get<std::string>(), "; ", row["kind"].get<std::string>()),
                     FormatSize(row["budget_bytes"].get<std::uint64_t>()), FormatSize(row["fast_bytes"].get<std::uint64_t>()),
                     absl::StrFormat("%g", row["recall"].get<double>()), number(row["mean_us"], 1), number(row["of_plan"], 2),
                     number(row["of_plan_mad"], 2), number(row["predicted_us"], 1)});
  }
  PrintColumns(cells, 2, std::cerr);
}

absl::Status RunPlanCommand(PlanFlags& flags) {
  PlanContest contest(flags);
  HMANN_RETURN_IF_ERROR(contest.Prepare());
  flags.sweep.reference = flags.sweep.contestants[0].name;
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, RunEval(flags));
  const Json figures = contest.Figures(result);
  PrintPlanTable(figures);
  return TellEval(flags, figures);
}

}  // namespace

EvalCommand SetupEvalPlan(CLI::App& eval) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* app = eval.add_subcommand(
      "plan",
      "What `hmann plan` chooses, beside two rules of thumb with the same fast memory: upper layers first, and first touch (a model)");
  flags->sweep.targets = {0.95};
  AddEvalOptions(*app, flags.get());
  app->add_option("--shares", flags->shares, "fast memory, as shares of the bytes of an index file without sketches")
      ->delimiter(',')
      ->check(CheckShare)
      ->capture_default_str();
  app->add_option("--emulated", flags->emulated, "the slow memory: lat=300ns,bw=6GB/s,lines=12, or a preset, as optane")
      ->check(CheckEmulated)
      ->capture_default_str();
  app->add_option("--profile", flags->profile, "device file that knows this slow memory (default: measured first, a few seconds)");
  app->add_option("--seed", flags->seed, "of the builds")->capture_default_str();
  app->add_option("--widths", flags->widths, "the ladder of every curve: ef of HNSW, ef_l0 of pool and gated, ef_l1 of beams")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->footer(
      "Example:\n  hmann eval plan --base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --groundtruth "
      "datasets/sample/query.gt100 --shares 0.4 --out build/plan-contest");
  return {app, [flags] { return RunPlanCommand(*flags); }};
}

}  // namespace hmann
