#include <iostream>
#include <memory>

#include "eval/program/eval_flags.h"
#include "eval/tier_contest.h"
#include "index/base/status_macros.h"
#include "index/dials/dial_table.h"

namespace hmann {
namespace {

struct TiersFlags : EvalFlags {
  TierContest contest;
};

std::string CheckPrefetch(const std::string& text) {
  return std::string(FindDial("prefetch")->Parse(text).status().message());
}

absl::Status RunTiersCommand(TiersFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(TierPlan plan, PlanTiers(flags.contest));
  flags.sweep.contestants = plan.programs;
  flags.sweep.reference = plan.reference;
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, RunEval(flags));
  const Json figures = TierFigures(result, plan);
  PrintTierTables(figures, std::cerr);
  return TellEval(flags, figures);
}

}  // namespace

EvalCommand SetupEvalTiers(CLI::App& eval) {
  auto flags = std::make_shared<TiersFlags>();
  CLI::App* app = eval.add_subcommand("tiers",
                                      "hmann on an emulated slow memory, beside HNSW there, with "
                                      "fast upper layers, in Memory Mode, and by first touch");
  flags->sweep.targets = {0.95, 0.99};
  AddEvalOptions(*app, flags.get());
  TierContest* contest = &flags->contest;
  AddEmulated(*app, &contest->emulated);
  app->add_option("--fast-share", contest->fast_share,
                  "of HNSW's bytes that fit into the DRAM of Memory Mode and first-touch")
      ->check(CheckShare)
      ->capture_default_str();
  AddPromote(*app, &contest->promote);
  app->add_option("--seed", contest->seed, "of hmann's build")->capture_default_str();
  app->add_option("--prefetch", contest->prefetch,
                  "hmann's ways of fetching ahead to compare: ahead and any of off, round, helper")
      ->delimiter(',')
      ->check(CheckPrefetch)
      ->capture_default_str();
  app->add_option("--widths", contest->widths,
                  "the ladder of every curve: ef of HNSW, ef_l0 of best-first, ef_l1 of beams")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  return {app, [flags] { return RunTiersCommand(*flags); }};
}

}  // namespace hmann
