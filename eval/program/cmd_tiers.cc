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
  bool rival_graph = true;
};

std::string CheckPrefetch(const std::string& text) {
  return std::string(FindDial("prefetch")->Parse(text).status().message());
}

absl::Status RunTiersCommand(TiersFlags& flags) {
  ContestantJob& job = flags.sweep.job;
  if (job.work.empty()) job.work = job.folder + "/work";
  BuildOptions build;
  build.base = job.base;
  build.rows = job.rows;
  build.metric = job.metric;
  build.m = job.m;
  build.ef_construction = job.ef_construction;
  HMANN_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(build));
  HMANN_RETURN_IF_ERROR(PlanTiers(flags.contest, shape).status());
  if (flags.rival_graph) {
    HMANN_ASSIGN_OR_RETURN(flags.contest.rival_graph, BuildRivalGraph(job));
  }
  HMANN_ASSIGN_OR_RETURN(TierPlan plan, PlanTiers(flags.contest, shape));
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
  app->add_option("--fast-bytes", contest->fast_bytes,
                  "of fast memory a vector, rows each: of hmann (the planner chooses the "
                  "structure) and of Memory Mode and first-touch")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--in-flight", contest->in_flight,
                  "queries that the one search thread keeps under way, rows each, of all")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_flag("!--own-graph-only", flags->rival_graph,
                "leave out hmann over hnswlib's graph, beside its own");
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
