#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/own_contestants.h"
#include "eval/results.h"
#include "index/base/status_macros.h"
#include "index/format/info.h"
#include "tools/commands.h"
#include "tools/eval_flags.h"

namespace hmann {
namespace {

struct SweepFlags : EvalFlags {
  std::vector<std::string> contestants, adapters;
  double promote = 0.16;
  std::string promotion = "degree";
  std::uint64_t seed = 1;
};

struct PromotionFlags : EvalFlags {
  std::vector<double> shares = {0.10, 0.16};
  std::vector<std::string> orders = {"degree", "random"};
};

std::string CheckOrder(const std::string& text) {
  const absl::StatusOr<PromotionOrder> order = ParsePromotionOrder(text);
  return order.ok() ? std::string() : std::string(order.status().message());
}

absl::Status RunSweepCommand(SweepFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  if (flags.contestants.empty()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(sweep.job.base, sweep.job.rows));
    flags.contestants = OwnContestantNames(base.dtype(), sweep.job.metric);
  }
  const Json build = {{"promote", flags.promote}, {"promotion", flags.promotion}, {"seed", flags.seed}};
  for (const std::string& name : flags.contestants) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant(name, build));
    sweep.contestants.push_back(std::move(spec));
  }
  for (const std::string& text : flags.adapters) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, ForeignContestant(text));
    sweep.contestants.push_back(std::move(spec));
  }
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, RunEval(flags));
  const Json figures = ToJson(result);
  PrintSweepTable(figures, std::cerr);
  return TellEval(flags, figures);
}

absl::Status RunPromotionCommand(PromotionFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  for (const double share : flags.shares) {
    for (const std::string& order : flags.orders) {
      HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hmann", {{"promote", share}, {"promotion", order}}));
      spec.name = absl::StrFormat("%s %.2f", order, share);
      sweep.contestants.push_back(std::move(spec));
    }
  }
  sweep.reference = sweep.contestants.back().name;
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, RunEval(flags));
  Json figures = ToJson(result);
  figures["title"] = "Who is promoted";
  figures["promotion"] = ComparePromotion(result);
  PrintSweepTable(figures, std::cerr);
  PrintPromotionTable(figures["promotion"], std::cerr);
  return TellEval(flags, figures);
}

EvalCommand SetupEvalSweep(CLI::App& eval) {
  auto sweep = std::make_shared<SweepFlags>();
  CLI::App* sweep_app =
      eval.add_subcommand("sweep", "Recall against speed, beside hnswlib, Faiss and whoever speaks eval/adapters/PROTOCOL.md");
  AddEvalOptions(*sweep_app, sweep.get());
  sweep_app
      ->add_option("--contestants", sweep->contestants,
                   "some of hmann,hmann-batch,hmann-aa,hnswlib,hnswlib-u8,faiss,faiss-sq8,faiss-ivfpq (default: all that can take part but "
                   "the last two)")
      ->delimiter(',');
  sweep_app->add_option("--adapter", sweep->adapters, "NAME=COMMAND: one more contestant, a program that speaks the protocol");
  sweep_app->add_option("--reference", sweep->sweep.reference, "contestant that ratios are to")->capture_default_str();
  sweep_app->add_option("--promote", sweep->promote, "hmann's share of vectors in fast memory, N_1 / N")
      ->check(CheckShare)
      ->capture_default_str();
  sweep_app->add_option("--promotion", sweep->promotion, "who is promoted first, by: degree, in, out, random")
      ->check(CheckOrder)
      ->capture_default_str();
  sweep_app->add_option("--seed", sweep->seed, "of hmann's build")->capture_default_str();
  sweep_app->footer(
      "Example:\n  hmann eval sweep --base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --groundtruth "
      "datasets/sample/query.gt100 --out build/sweep");
  return {sweep_app, [sweep] { return RunSweepCommand(*sweep); }};
}

EvalCommand SetupEvalPromotion(CLI::App& eval) {
  auto promotion = std::make_shared<PromotionFlags>();
  CLI::App* promotion_app =
      eval.add_subcommand("promotion", "Promotion orders at equal N_1: slow reads and speed at equal recall, by walk");
  AddEvalOptions(*promotion_app, promotion.get());
  promotion_app->add_option("--promote", promotion->shares, "shares N_1 / N to compare at")
      ->delimiter(',')
      ->check(CheckShare)
      ->capture_default_str();
  promotion_app->add_option("--orders", promotion->orders, "of degree, in, out, random")
      ->delimiter(',')
      ->check(CheckOrder)
      ->capture_default_str();
  promotion->sweep.targets = {0.95, 0.99};
  promotion_app->footer(
      "Example:\n  hmann eval promotion --base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --out build/promotion");
  return {promotion_app, [promotion] { return RunPromotionCommand(*promotion); }};
}

}  // namespace

CommandAction SetupEval(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<EvalCommand> commands = {SetupEvalSweep(app),      SetupEvalPromotion(app), SetupEvalTiers(app),
                                       SetupEvalMemoryMode(app), SetupEvalDisk(app),      SetupEvalPlan(app)};
  return [commands = std::move(commands)]() -> absl::Status {
    for (const auto& [command, action] : commands) {
      if (command->parsed()) return action();
    }
    return absl::InternalError("eval: no subcommand was called");
  };
}

}  // namespace hmann
