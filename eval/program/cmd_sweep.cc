#include <iostream>
#include <memory>

#include "datasets/vector_file.h"
#include "eval/own_contestants.h"
#include "eval/program/eval_flags.h"
#include "eval/program/finished_flags.h"
#include "eval/results.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

struct SweepFlags : EvalFlags {
  std::vector<std::string> contestants, adapters;
  double promote = 0.16;
  std::uint64_t seed = 1;
  FinishedFlags finished;
  std::vector<int> search_threads, in_flight = {1};
};

absl::Status RunSweepCommand(SweepFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  sweep.shapes = AllShapes(flags.search_threads, flags.in_flight);
  HMANN_RETURN_IF_ERROR(AddFinishedContestants(flags.finished, &sweep));
  if (flags.contestants.empty() && !flags.finished.any()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(sweep.job.base, sweep.job.rows));
    flags.contestants = OwnContestantNames(base.dtype(), sweep.job.metric);
  }
  const Json build = {{"promote", flags.promote}, {"seed", flags.seed}};
  for (const std::string& name : flags.contestants) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant(name, build));
    sweep.contestants.push_back(std::move(spec));
  }
  HMANN_RETURN_IF_ERROR(AddAdapters(flags.adapters, &sweep));
  ProfileOptions profile;
  profile.scratch = sweep.job.folder + "/probe";
  profile.repeats = 3;
  profile.budget = std::chrono::milliseconds(300);
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const DeviceProfile machine, MeasureProfile(profile, quiet));
  sweep.memory = machine.Memory("dram")->in_flight;
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, RunEval(flags));
  const Json figures = ToJson(result);
  PrintSweepTable(figures, std::cerr);
  return TellEval(flags, figures);
}

}  // namespace

EvalCommand SetupEvalSweep(CLI::App& eval) {
  auto sweep = std::make_shared<SweepFlags>();
  CLI::App* app = eval.add_subcommand(
      "sweep",
      "Recall against speed, beside hnswlib, Faiss and whoever speaks eval/adapters/PROTOCOL.md");
  AddEvalOptions(*app, sweep.get());
  app->add_option(
         "--contestants", sweep->contestants,
         "some of hmann,hmann-batch,hmann-aa,hmann-insertion,hnswlib,hnswlib-u8,faiss,faiss-sq8,"
         "faiss-ivfpq (default: all that can take part but hmann-insertion and the last two; "
         "beside "
         "--index or --server: none)")
      ->delimiter(',');
  AddForeign(*app, &sweep->adapters, &sweep->sweep);
  app->add_option("--search-threads", sweep->search_threads,
                  "threads that search side by side, a row each (default: one, without latencies)")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app->add_option("--in-flight", sweep->in_flight,
                  "queries that each of --search-threads keeps under way, a row each, of hmann")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->needs("--search-threads");
  AddFinished(*app, &sweep->finished);
  app->get_option("--base")->required(false)->description(
      "vectors to index, any format that `hmann build` takes; beside --index or --server only "
      "for their exact neighbours, if --groundtruth is not given");
  app->callback([app] {
    if (app->count("--base") + app->count("--index") + app->count("--server") == 0)
      throw CLI::RequiredError("--base, --index or --server");
  });
  AddPromote(*app, &sweep->promote);
  app->add_option("--seed", sweep->seed, "of hmann's build")->capture_default_str();
  return {app, [sweep] { return RunSweepCommand(*sweep); }};
}

}  // namespace hmann
