#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "eval/disk_results.h"
#include "eval/disk_sweep.h"
#include "eval/program/eval_flags.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/hmann.h"
#include "tools/flags.h"

namespace hmann {
namespace {

constexpr const char* kQuarter = "quarter+64MiB";

struct DiskFlags : EvalFlags {
  DiskSweepOptions options;  ///< but for `sweep`, which is the base's
  double promote = 0.16;
  std::string index;  ///< "": one is built
  std::vector<std::string> adapters;
  bool again = false;
  std::vector<int> threads = {1, 2};
  int in_flight = 8;
};

absl::Status RunDiskCommand(DiskFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  if (!flags.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(flags.index));
    HMANN_ASSIGN_OR_RETURN(sweep.contestants, DiskContestants(flags.index));
    sweep.shape = {info.n, info.dim, info.dtype};
    sweep.job.metric = info.metric;
  } else {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(sweep.job.base, sweep.job.rows));
    HMANN_ASSIGN_OR_RETURN(sweep.contestants, DiskContestants(base.dtype(), sweep.job.metric,
                                                              {{"promote", flags.promote}}));
  }
  if (flags.again) {
    sweep.contestants.push_back(sweep.contestants[0]);
    sweep.contestants.back().name += " again";
  }
  HMANN_RETURN_IF_ERROR(AddAdapters(flags.adapters, &sweep));
  HMANN_RETURN_IF_ERROR(FinishEvalOptions(flags));
  flags.options.sweep = sweep;
  flags.options.shapes = AllShapes(
      flags.threads, flags.in_flight > 1 ? std::vector{1, flags.in_flight} : std::vector{1});
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const DiskSweepResult result,
                         RunDiskSweep(flags.options, progress,
                                      [](const std::string& line) { std::cerr << line << '\n'; }));
  const Json figures = ToJson(result);
  PrintDiskTables(figures, std::cerr);
  return TellEval(flags, figures);
}

}  // namespace

EvalCommand SetupEvalDisk(CLI::App& eval) {
  auto flags = std::make_shared<DiskFlags>();
  DiskSweepOptions* options = &flags->options;
  CLI::App* app =
      eval.add_subcommand("disk",
                          "Search on NVMe inside a memory limit (root: it makes cgroups), beside "
                          "hnswlib on a mapped file and the disk by itself");
  AddEvalOptions(*app, flags.get(), " --memory-limit 64MiB");
  flags->sweep.targets = {0.95, 0.99};
  app->get_option("--targets")->capture_default_str();
  flags->sweep.reference = kMappedRival;
  flags->sweep.warm_up_queries = 200;
  app->add_option_function<std::string>(
         "--memory-limit",
         [options](const std::string& text) {
           if (text == kQuarter) return;
           const absl::StatusOr<std::uint64_t> bytes = ParseSize(text);
           if (!bytes.ok())
             throw CLI::ValidationError("--memory-limit", std::string(bytes.status().message()));
           options->memory_limit = *bytes;
         },
         absl::StrCat("of each searching program, page cache included: ", kQuarter,
                      " (default: of hmann's index file) or a size, as 200MiB"))
      ->type_name("SIZE");
  app->add_option("--targets-at-1", options->targets_at_1,
                  "recall@1 to compare at; --targets are of recall@k")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
  app->add_option("--search-threads", flags->threads, "threads that search side by side")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--in-flight", flags->in_flight,
                  "queries that a thread of hmann keeps under way, besides one at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app->add_option("--warm-up", flags->sweep.warm_up_queries,
                  "queries answered untimed before each run, for caches")
      ->capture_default_str();
  AddParsed<std::chrono::nanoseconds>(
      *app, "--disk-time", ParseDuration,
      [options](std::chrono::nanoseconds time) { options->disk.time = time; },
      "of the disk by itself, at each depth (default 1s)");
  app->add_option("--index", flags->index,
                  "a finished index file, instead of building one of --base and hnswlib's; "
                  "--base is then for those of --adapter");
  AddForeign(*app, &flags->adapters, &flags->sweep);
  app->add_flag("--again", flags->again,
                "hmann's first walk in a second process as well: what differs is noise");
  app->get_option("--base")->required(false);
  app->callback([app] {
    if (app->count("--base") + app->count("--index") == 0)
      throw CLI::RequiredError("--base or --index");
    if (app->count("--adapter") > 0 && app->count("--base") == 0)
      throw CLI::RequiredError("--adapter: --base");
  });
  AddPromote(*app, &flags->promote);
  return {app, [flags] { return RunDiskCommand(*flags); }};
}

}  // namespace hmann
