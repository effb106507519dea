#include <chrono>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "eval/program/eval_flags.h"
#include "eval/report/pages.h"
#include "eval/scale.h"
#include "eval/scale_results.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann {
namespace {

struct ScaleFlags {
  ScaleOptions options;
  std::vector<std::string> sizes;
  bool json = false;
};

absl::Status RunScaleCommand(ScaleFlags& flags) {
  ScaleOptions& options = flags.options;
  for (const std::string& text : flags.sizes) {
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t size, ParseSize(text));
    options.sizes.push_back(size);
  }
  options.job.cancelled = CancelOnInterrupt();
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(
      const Json figures,
      RunScale(options, progress, [](const std::string& line) { std::cerr << line << '\n'; }));
  PrintScaleTables(figures, std::cerr);
  const std::string& out = options.job.folder;
  HMANN_RETURN_IF_ERROR(WriteReport(figures, ScalePage(), absl::StrCat(out, "/report.html")));
  std::cerr << out << "/scale.jsonl: every size\n" << out << "/report.html: the same to look at\n";
  return flags.json ? PrintJson(figures) : absl::OkStatus();
}

void AddData(CLI::App& app, ScaleFlags* flags) {
  ScaleOptions* options = &flags->options;
  ContestantJob* job = &options->job;
  job->query_rows = 1500;
  app.add_option("--base", job->base,
                 "real vectors; sizes beyond them are made up as `hmann data generate --kind "
                 "resample` does, and labelled so")
      ->required();
  app.add_option("--queries", job->queries,
                 "real queries, none of the base; of made-up sizes, queries are made up as well")
      ->required();
  app.add_option("--sizes", flags->sizes, "vectors of each index, ascending: 10k,100k,1M,10M")
      ->delimiter(',')
      ->required();
  app.add_option("--out", job->folder,
                 "folder of scale.jsonl (a line for each size that is done: the same command goes "
                 "on behind them), report.html and what is at work")
      ->required();
  app.add_option("--query-rows", job->query_rows, "first of --queries only (0: all)")
      ->capture_default_str();
  app.add_option("--learn", options->learn,
                 "of these, the first (at most half): dials are chosen on them, figures are of the "
                 "others")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  AddParsed<Metric>(
      app, "--metric", ParseMetric, [job](Metric metric) { job->metric = metric; },
      "l2 (default), ip, cosine");
  app.add_option("--share", options->resample.share,
                 "of made-up vectors: parts taken from near rows")
      ->capture_default_str();
  app.add_option("--seed", options->resample.seed, "of made-up vectors")->capture_default_str();
  app.add_flag("--keep", options->keep, "leave vectors and indexes of sizes that are done");
}

void AddBuild(CLI::App& app, ScaleOptions* options) {
  ContestantJob* job = &options->job;
  job->threads = UsableCores();
  app.add_option("--fast-bytes", options->fast_bytes,
                 "of fast memory a vector: an index each, of every size, of the structure that "
                 "the planner chooses for --extrapolate vectors with so many bytes each")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--m", job->m, "M")->check(CLI::Range(2, 512))->capture_default_str();
  app.add_option("--ef-construction", job->ef_construction, "beam width of the builds")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--threads", job->threads, "of the builds (default: all usable cores)")
      ->check(CLI::Range(1, 1024));
  AddParsed<std::uint64_t>(
      app, "--build-memory", ParseSize,
      [options](std::uint64_t bytes) { options->build_memory = bytes; },
      "memory a build may take, as 8GiB: the rest goes through files in --out");
}

void AddSearch(CLI::App& app, ScaleOptions* options) {
  ContestantJob* job = &options->job;
  job->run_timeout = std::chrono::hours(1);
  app.add_option("--tiers", options->tiers,
                 "where L0 lies: dram, nvme (inside a memory limit: root, it makes cgroups)")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--walks", options->walks, "some of quantised,best-first,multi-start")
      ->delimiter(',')
      ->capture_default_str();
  AddParsed<std::uint64_t>(
      app, "--memory-limit", ParseSize,
      [options](std::uint64_t bytes) { options->memory_limit = bytes; },
      "of a search on nvme, page cache included (default: its fast bytes, a tenth more, and "
      "64MiB)");
  app.add_option("--k", job->k, "neighbours a query")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--targets", options->targets, "recalls to compare at")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
  app.add_option("--rounds", options->rounds, "times that every setting is run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddParsed<std::chrono::nanoseconds>(
      app, "--disk-time", ParseDuration,
      [options](std::chrono::nanoseconds time) { options->disk.time = time; },
      "of the disk by itself, at each depth (default 500ms)");
  options->disk.time = std::chrono::milliseconds(500);
  options->machine.repeats = 3;
  options->machine.budget = std::chrono::seconds(1);
  AddParsed<std::uint64_t>(
      app, "--extrapolate", ParseSize, [options](std::uint64_t rows) { options->goal_rows = rows; },
      "vectors that growth is extrapolated to (default 1G)");
  AddParsed<std::uint64_t>(
      app, "--fast-memory", ParseSize,
      [options](std::uint64_t bytes) { options->goal_fast_memory = bytes; },
      "of the machine that it is extrapolated to (default 96GiB)");
}

}  // namespace

EvalCommand SetupEvalScale(CLI::App& eval) {
  auto flags = std::make_shared<ScaleFlags>();
  CLI::App* app = eval.add_subcommand(
      "scale", "How everything grows with the number of vectors, at equal bytes of fast memory");
  app->footer(
      "Example:\n  hmann eval scale --base datasets/sample/base.u8bin --queries "
      "datasets/sample/query.u8bin --sizes 1k,5k,10k,15k --tiers dram --out build/scale");
  AddData(*app, flags.get());
  AddBuild(*app, &flags->options);
  AddSearch(*app, &flags->options);
  app->add_flag("--json", flags->json, "the figures as one JSON object on stdout");
  return {app, [flags] { return RunScaleCommand(*flags); }};
}

}  // namespace hmann
