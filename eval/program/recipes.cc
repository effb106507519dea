// The recipes sweep, disk, tiers, scale, paper and runbook: how each fills a benchmark;
// and report, which shows results again.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "eval/builtin_systems.h"
#include "eval/paper/paper.h"
#include "eval/program/finished_flags.h"
#include "eval/program/flags.h"
#include "eval/results.h"
#include "eval/runbook.h"
#include "eval/scale.h"
#include "eval/tier_benchmark.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/emulation.h"
#include "tools/build_flags.h"
#include "tools/flags.h"

namespace hmann::eval {
namespace {

constexpr const char* kSample =
    "--base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --groundtruth "
    "datasets/sample/query.gt100";

struct SweepFlags : EvalFlags {
  std::vector<std::string> systems;
  FinishedFlags finished;
};

absl::Status RunSweepCommand(SweepFlags& flags) {
  Benchmark& benchmark = flags.benchmark;
  const BenchmarkData& job = benchmark.job;
  HMANN_RETURN_IF_ERROR(AddFinishedSystems(flags.finished, &benchmark));
  if (flags.systems.empty() && !flags.finished.any()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
    flags.systems = BuiltinSystemNames(base.dtype(), job.metric);
    if (!benchmark.filter.empty()) flags.systems = {"hmann", "hmann-aa", "faiss", "faiss-ivf"};
  }
  for (const std::string& name : flags.systems) {
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem(name));
    benchmark.systems.push_back(std::move(spec));
  }
  return flags.Run();
}

struct DiskFlags : EvalFlags {
  std::string index;  ///< "": one is built
};

absl::Status RunDiskCommand(DiskFlags& flags) {
  Benchmark& benchmark = flags.benchmark;
  BenchmarkData& job = benchmark.job;
  benchmark.title = "Search on a disk";
  SystemSpec hmann;
  if (!flags.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(flags.index));
    HMANN_ASSIGN_OR_RETURN(hmann, FinishedSystem("hmann", {{"index", flags.index}}));
    benchmark.shape = {info.n, info.dim, info.dtype};
    job.metric = info.metric;
  } else {
    HMANN_ASSIGN_OR_RETURN(hmann, BuiltinSystem("hmann"));
  }
  benchmark.systems = OnDrive(std::move(hmann));
  if (flags.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
    HMANN_ASSIGN_OR_RETURN(SystemSpec baseline, MappedHnswlib(base.dtype(), job.metric));
    benchmark.systems.push_back(std::move(baseline));
  }
  return flags.Run();
}

struct TiersFlags : EvalFlags {
  TierBenchmark comparison;
};

absl::Status RunTiersCommand(TiersFlags& flags) {
  BenchmarkData& job = flags.benchmark.job;
  BuildOptions build;
  build.base = job.base;
  build.rows = job.rows;
  build.metric = job.metric;
  build.m = job.m;
  build.ef_construction = job.ef_construction;
  HMANN_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(build));
  job.work = job.folder + "/work";
  HMANN_ASSIGN_OR_RETURN(flags.comparison.baseline_graph, BuildBaselineGraph(job));
  HMANN_RETURN_IF_ERROR(AddTiers(flags.comparison, shape, &flags.benchmark));
  return flags.Run();
}

struct ScaleFlags : EvalFlags {
  ScaleOptions options;
  std::vector<std::string> sizes, slow;
};

absl::Status RunScaleCommand(ScaleFlags& flags) {
  ScaleOptions& options = flags.options;
  for (const std::string& text : flags.sizes) {
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t size, ParseCount(text));
    options.sizes.push_back(size);
  }
  if (!flags.slow.empty()) options.tiers = flags.slow;
  return flags.Run([&options](const Benchmark& each, Progress& progress, const Say& say) {
    options.each = each;
    return RunScale(options, progress, say);
  });
}

struct RunbookFlags : EvalFlags {
  RunbookOptions options;
};

absl::Status RunRunbookCommand(RunbookFlags& flags) {
  return flags.Run([&](const Benchmark& benchmark, Progress&, const Say& say) {
    return RunRunbooks(flags.options, benchmark, say);
  });
}

struct PaperFlags : EvalFlags {
  std::string scale = "sample";
};

absl::Status RunPaperCommand(PaperFlags& flags) {
  const auto scale = std::find_if(PaperScales().begin(), PaperScales().end(),
                                  [&](const PaperScale& one) { return one.name == flags.scale; });
  return flags.Run([&](const Benchmark& each, Progress& progress, const Say& say) {
    return RunPaper(*scale, each, progress, say);
  });
}

struct ReportFlags : EvalFlags {
  std::vector<std::string> files;
};

absl::Status RunReportCommand(ReportFlags& flags) {
  namespace fs = std::filesystem;
  const std::vector<std::string>& files = flags.files;
  std::string& out = flags.benchmark.job.folder;
  if (out.empty()) out = (fs::path(files[0]).parent_path() / ".").lexically_normal().string();
  const std::string path = (fs::path(out) / "results.jsonl").string();
  std::error_code absent;
  for (const std::string& file : files) {
    if (files.size() > 1 && fs::equivalent(file, path, absent))
      return InvalidArgument("--out: expected another folder: the results would replace ", path);
  }
  return flags.Run([&](auto&&...) -> absl::StatusOr<std::vector<Json>> {
    HMANN_ASSIGN_OR_RETURN(std::vector<Json> lines, MergeResults(files));
    HMANN_RETURN_IF_ERROR(MakeFolders(out));
    HMANN_RETURN_IF_ERROR(WriteResults(path, lines));
    return lines;
  });
}

void AddFastBytes(CLI::App& app, std::vector<double>* fast_bytes, const char* description) {
  app.add_option("--fast-bytes", *fast_bytes, description)
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

EvalCommand SetupEvalSweep(CLI::App& eval) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* app =
      eval.add_subcommand("sweep",
                          "Compare recall and speed with hnswlib, Faiss and programs that speak "
                          "eval/adapters/PROTOCOL.md");
  flags->AddData(*app);
  flags->AddBuild(*app);
  app->add_option(
         "--systems", flags->systems,
         "systems to run: hmann,hmann-batch,hmann-aa,hmann-insertion,hnswlib,hnswlib-u8,faiss,"
         "faiss-sq8,faiss-ivf,faiss-ivfpq,faiss-nsg,faiss-imi (default: all that can take part "
         "except hmann-insertion and the last five, with --filter hmann,hmann-aa,faiss,faiss-ivf; "
         "with --index or "
         "--server: none)")
      ->delimiter(',');
  flags->AddOthers(*app);
  AddFinished(*app, &flags->finished);
  tools::AddRowsFlags(*app, "--attrs", "the attributes of the base, for --filter",
                      &flags->benchmark.attrs);
  CLI::Option* attrs = app->get_option("--attrs");
  attrs->needs(tools::AddFilterFlag(*app, &flags->benchmark.filter,
                                    "find only vectors whose attributes satisfy this")
                   ->needs(attrs));
  flags->AddRuns(*app);
  flags->AddShapes(*app);
  app->get_option("--in-flight")->needs("--search-threads");
  flags->AddClock(*app);
  flags->AddOut(*app, absl::StrCat(kSample, " --out build/sweep"));
  app->get_option("--base")->required(false)->description(
      "vectors to index, in any format that `hmann build` takes; with --index or --server used "
      "only to compute exact neighbors, if --groundtruth is not given");
  app->callback([app] {
    if (app->count("--base") + app->count("--index") + app->count("--server") == 0)
      throw CLI::RequiredError("--base, --index or --server");
  });
  return {app, [flags] { return RunSweepCommand(*flags); }};
}

EvalCommand SetupEvalDisk(CLI::App& eval) {
  auto flags = std::make_shared<DiskFlags>();
  Benchmark* benchmark = &flags->benchmark;
  CLI::App* app =
      eval.add_subcommand("disk",
                          "Search on NVMe inside a memory limit (as root: it creates cgroups), "
                          "compared with hnswlib on a mapped file and with the disk alone");
  benchmark->targets = {0.95, 0.99};
  benchmark->memory_limit = 0;
  benchmark->warm_up_queries = 200;
  flags->search_threads = {1, 2};
  flags->in_flight = {1, 8};
  flags->AddData(*app);
  flags->AddBuild(*app);
  app->add_option("--index", flags->index,
                  "a finished index file to search, instead of building hmann's and hnswlib's from "
                  "--base; --base then serves only the --adapter systems");
  flags->AddOthers(*app);
  tools::AddParsed(
      *app, "--memory-limit", ParseSize, &benchmark->memory_limit,
      "memory of each searching program, page cache included, e.g. 200MiB (default: a quarter of "
      "hmann's index file plus 64MiB)");
  flags->AddRuns(*app);
  flags->AddShapes(*app);
  flags->AddOut(*app, absl::StrCat(kSample, " --memory-limit 64MiB --out build/disk"));
  app->get_option("--base")->required(false);
  app->callback([app] {
    if (app->count("--base") + app->count("--index") == 0)
      throw CLI::RequiredError("--base or --index");
    if (app->count("--adapter") > 0 && app->count("--base") == 0)
      throw CLI::RequiredError("--adapter: --base");
  });
  return {app, [flags] { return RunDiskCommand(*flags); }};
}

EvalCommand SetupEvalTiers(CLI::App& eval) {
  auto flags = std::make_shared<TiersFlags>();
  TierBenchmark* comparison = &flags->comparison;
  CLI::App* app =
      eval.add_subcommand("tiers",
                          "Compare hmann on an emulated slow memory with HNSW there, with fast "
                          "upper layers, in Memory Mode, and by first touch");
  flags->benchmark.targets = {0.95, 0.99};
  flags->search_threads = {1};
  flags->in_flight = {1, 4};
  flags->AddData(*app);
  flags->AddBuild(*app);
  app->add_option("--emulated", comparison->emulated,
                  "the slow memory: lat=300ns,bw=6GB/s,lines=12, or a preset such as optane")
      ->check([](const std::string& text) {
        return std::string(EmulationSpec::Parse(text).status().message());
      })
      ->capture_default_str();
  AddFastBytes(*app, &comparison->fast_bytes,
               "bytes of fast memory per vector, one set of rows each: for hmann (as many promoted "
               "nodes as fit, without codes, and with codes for the quantized mode), and for "
               "Memory Mode and first-touch");
  app->add_option("--widths", comparison->widths,
                  "the ladder of every curve: ef for HNSW, ef_l0 for graph, ef_l1 for multi-start")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  flags->AddRuns(*app);
  flags->AddShapes(*app);
  app->remove_option(app->get_option("--search-threads"));
  flags->AddClock(*app);
  flags->AddOut(*app, absl::StrCat(kSample, " --out build/tiers"));
  return {app, [flags] { return RunTiersCommand(*flags); }};
}

EvalCommand SetupEvalScale(CLI::App& eval) {
  auto flags = std::make_shared<ScaleFlags>();
  ScaleOptions* options = &flags->options;
  CLI::App* app = eval.add_subcommand(
      "scale",
      "Measure growth with the number of vectors, at equal bytes of fast memory per vector");
  flags->benchmark = options->each;
  flags->AddData(*app, false);
  app->get_option("--base")->description(
      "real vectors; larger sizes are synthetic, resampled as by `hmann data generate --kind "
      "resample`, with their queries, and labeled so");
  app->add_option("--sizes", flags->sizes, "vectors of each index, ascending: 10k,100k,1M,10M")
      ->delimiter(',')
      ->required();
  flags->AddBuild(*app, false);
  AddFastBytes(*app, &options->fast_bytes,
               "bytes of fast memory per vector; each gives one index of every size, with as many "
               "promoted nodes as fit in addition to codes");
  tools::AddParsed(*app, "--build-memory", ParseSize, &options->build_memory,
                   "memory that a build may take, e.g. 8GiB; the rest goes through files in --out");
  app->add_option("--slow", flags->slow,
                  "tier of L0; repeat for several (default: dram, and nvme inside a memory limit, "
                  "which needs root to create cgroups)")
      ->allow_extra_args(false);
  flags->AddRuns(*app);
  flags->AddOut(*app,
                "--base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --sizes "
                "5k,10k,15k --slow dram --out build/scale");
  return {app, [flags] { return RunScaleCommand(*flags); }};
}

EvalCommand SetupEvalRunbook(CLI::App& eval) {
  auto flags = std::make_shared<RunbookFlags>();
  BenchmarkData* job = &flags->benchmark.job;
  flags->benchmark.targets = {0.95};
  CLI::App* app = eval.add_subcommand(
      "runbook",
      "Insert, delete, replace and search in a collection, as the streaming track of "
      "big-ann-benchmarks does: recall at every search, and the time of all");
  flags->AddData(*app, false);
  app->get_option("--base")->description("vectors that come and go");
  app->get_option("--query-rows")
      ->description("use only the first rows of --queries (0: 1000, or all if they are fewer)");
  app->add_option("--rows", job->rows, "use only the first rows of --base (0: all)");
  app->add_option("--learn", flags->options.learn,
                  "learning queries, with which merges calibrate (default: vectors of the index)");
  app->add_option("--runbooks", flags->options.runbooks,
                  "simple, delete, replace or window, over 64 clusters of the base; or a file of "
                  "big-ann-benchmarks")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--slow", flags->options.slow, "tier of L0")->capture_default_str();
  app->add_option("--k", job->k, "neighbors per query")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app->add_option("--targets", flags->benchmark.targets, "recalls to search at")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
  flags->AddOut(*app,
                "--base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --out "
                "build/runbook");
  return {app, [flags] { return RunRunbookCommand(*flags); }};
}

EvalCommand SetupEvalPaper(CLI::App& eval) {
  auto flags = std::make_shared<PaperFlags>();
  flags->benchmark.rounds = 1;
  flags->benchmark.clock = RunClock::kCpu;
  CLI::App* app = eval.add_subcommand(
      "paper", "Check the claims of the HM-ANN paper, one by one, and say which hold here");
  flags->AddData(*app, false);
  std::vector<std::string> scales;
  for (const PaperScale& scale : PaperScales()) scales.emplace_back(scale.name);
  app->add_option("--scale", flags->scale, "vectors: sample (all of --base), 200k, 1M or 10M")
      ->check(CLI::IsMember(scales))
      ->capture_default_str();
  app->remove_option(app->get_option("--query-rows"));
  flags->AddBuild(*app, false);
  flags->AddOut(*app,
                "--base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --out "
                "build/paper");
  return {app, [flags] { return RunPaperCommand(*flags); }};
}

EvalCommand SetupEvalReport(CLI::App& eval) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* app = eval.add_subcommand(
      "report", "Draw the page of finished results again, or one page of several");
  app->add_option("files", flags->files, "results.jsonl of the other commands")
      ->option_text("FILE...")
      ->required();
  flags->AddOut(*app, "build/before/results.jsonl build/after/results.jsonl --out build/both",
                false);
  app->get_option("--out")->description(
      "folder for results.jsonl and report.html (default: that of the file)");
  return {app, [flags] { return RunReportCommand(*flags); }};
}

}  // namespace hmann::eval
