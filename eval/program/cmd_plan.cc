#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/columns.h"
#include "eval/plan_contest.h"
#include "eval/program/eval_flags.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/plan_choice.h"

namespace hmann {
namespace {

struct PlanFlags : EvalFlags {
  PlanContest contest;
  std::string profile;
};

void PrintPlanTable(const Json& figures) {
  std::vector<std::vector<std::string>> cells = {{"fast memory of the index file", "", "budget",
                                                  "planned", "recall", "us", "of the plan's", "+-",
                                                  "predicted us"}};
  const auto number = [](const Json& value, int digits) {
    return value.is_null() ? "-" : absl::StrFormat("%.*f", digits, value.get<double>());
  };
  for (const Json& row : figures["plan"]) {
    cells.push_back(
        {row["name"].get<std::string>(),
         absl::StrCat(row["structure"].get<std::string>(), "; ", row["kind"].get<std::string>()),
         FormatSize(row["budget_bytes"].get<std::uint64_t>()),
         FormatSize(row["fast_bytes"].get<std::uint64_t>()),
         absl::StrFormat("%g", row["recall"].get<double>()), number(row["mean_us"], 1),
         number(row["of_plan"], 2), number(row["of_plan_mad"], 2), number(row["predicted_us"], 1)});
  }
  PrintColumns(cells, 2, std::cerr);
}

absl::Status RunPlanCommand(PlanFlags& flags) {
  if (!flags.profile.empty()) {
    HMANN_ASSIGN_OR_RETURN(flags.contest.profile, ProfileToPlanWith(flags.profile));
  }
  HMANN_ASSIGN_OR_RETURN(const PlanLineup lineup, LineUpPlans(flags.contest, flags.sweep.job));
  flags.sweep.contestants = lineup.programs;
  flags.sweep.reference = lineup.curves[0].name;
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, RunEval(flags));
  const Json figures = PlanFigures(result, lineup);
  PrintPlanTable(figures);
  return TellEval(flags, figures);
}

}  // namespace

EvalCommand SetupEvalPlan(CLI::App& eval) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* app =
      eval.add_subcommand("plan",
                          "What `hmann plan` chooses, beside two rules of thumb with the same fast "
                          "memory: upper layers first, and first touch (a model)");
  flags->sweep.targets = {0.95};
  AddEvalOptions(*app, flags.get(), " --shares 0.4");
  PlanContest* contest = &flags->contest;
  app->add_option("--shares", contest->shares,
                  "fast memory, as shares of the bytes of an index file without codes")
      ->delimiter(',')
      ->check(CheckShare)
      ->capture_default_str();
  AddEmulated(*app, &contest->emulated);
  app->add_option(
      "--profile", flags->profile,
      "device file that knows this slow memory (default: measured first, a few seconds)");
  app->add_option("--seed", contest->seed, "of the builds")->capture_default_str();
  app->add_option("--widths", contest->widths,
                  "steps of every curve: ef of HNSW, ef_l0 of quantised, some as ef_l1 of beams "
                  "(epsilon has its own)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  return {app, [flags] { return RunPlanCommand(*flags); }};
}

}  // namespace hmann
