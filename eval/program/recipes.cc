// sweep, disk, tiers, scale: what each fills into a benchmark.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "eval/own_contestants.h"
#include "eval/program/flags.h"
#include "eval/scale.h"
#include "eval/tier_contest.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/emulation.h"
#include "tools/flags.h"

namespace hmann::eval {
namespace {

constexpr const char* kSample =
    "--base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --groundtruth "
    "datasets/sample/query.gt100";

struct SweepFlags : EvalFlags {
  std::vector<std::string> contestants;
  FinishedFlags finished;
};

absl::Status RunSweepCommand(SweepFlags& flags) {
  Benchmark& benchmark = flags.benchmark;
  const ContestantJob& job = benchmark.job;
  HMANN_RETURN_IF_ERROR(AddFinishedContestants(flags.finished, &benchmark));
  if (flags.contestants.empty() && !flags.finished.any()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
    flags.contestants = OwnContestantNames(base.dtype(), job.metric);
  }
  for (const std::string& name : flags.contestants) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant(name));
    benchmark.contestants.push_back(std::move(spec));
  }
  return flags.Run();
}

struct DiskFlags : EvalFlags {
  std::string index;  ///< "": one is built
};

absl::Status RunDiskCommand(DiskFlags& flags) {
  Benchmark& benchmark = flags.benchmark;
  ContestantJob& job = benchmark.job;
  benchmark.title = "Search on a disk";
  ContestantSpec hmann;
  if (!flags.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(flags.index));
    HMANN_ASSIGN_OR_RETURN(hmann, FinishedContestant("hmann", {{"index", flags.index}}));
    benchmark.shape = {info.n, info.dim, info.dtype};
    job.metric = info.metric;
  } else {
    HMANN_ASSIGN_OR_RETURN(hmann, OwnContestant("hmann"));
  }
  benchmark.contestants = OnDrive(std::move(hmann));
  if (flags.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
    HMANN_ASSIGN_OR_RETURN(ContestantSpec rival, MappedHnswlib(base.dtype(), job.metric));
    benchmark.contestants.push_back(std::move(rival));
  }
  return flags.Run();
}

struct TiersFlags : EvalFlags {
  TierContest contest;
};

absl::Status RunTiersCommand(TiersFlags& flags) {
  ContestantJob& job = flags.benchmark.job;
  BuildOptions build;
  build.base = job.base;
  build.rows = job.rows;
  build.metric = job.metric;
  build.m = job.m;
  build.ef_construction = job.ef_construction;
  HMANN_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(build));
  job.work = job.folder + "/work";
  HMANN_ASSIGN_OR_RETURN(flags.contest.rival_graph, BuildRivalGraph(job));
  HMANN_RETURN_IF_ERROR(AddTiers(flags.contest, shape, &flags.benchmark));
  return flags.Run();
}

struct ScaleFlags : EvalFlags {
  ScaleOptions options;
  std::vector<std::string> sizes, slow;
};

absl::Status RunScaleCommand(ScaleFlags& flags) {
  ScaleOptions& options = flags.options;
  for (const std::string& text : flags.sizes) {
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t size, ParseSize(text));
    options.sizes.push_back(size);
  }
  if (!flags.slow.empty()) options.tiers = flags.slow;
  return flags.Run([&options](const Benchmark& each, Progress& progress, const Say& say) {
    options.each = each;
    return RunScale(options, progress, say);
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
  CLI::App* app = eval.add_subcommand(
      "sweep",
      "Recall against speed, beside hnswlib, Faiss and whoever speaks eval/adapters/PROTOCOL.md");
  flags->AddData(*app);
  flags->AddBuild(*app);
  app->add_option(
         "--contestants", flags->contestants,
         "some of hmann,hmann-batch,hmann-aa,hmann-insertion,hnswlib,hnswlib-u8,faiss,faiss-sq8,"
         "faiss-ivfpq (default: all that can take part but hmann-insertion and the last two; "
         "beside "
         "--index or --server: none)")
      ->delimiter(',');
  flags->AddOthers(*app);
  AddFinished(*app, &flags->finished);
  flags->AddRuns(*app);
  flags->AddShapes(*app);
  app->get_option("--in-flight")->needs("--search-threads");
  flags->AddClock(*app);
  flags->AddOut(*app, absl::StrCat(kSample, " --out build/sweep"));
  app->get_option("--base")->required(false)->description(
      "vectors to index, any format that `hmann build` takes; beside --index or --server only "
      "for their exact neighbours, if --groundtruth is not given");
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
                          "Search on NVMe inside a memory limit (root: it makes cgroups), beside "
                          "hnswlib on a mapped file and the disk by itself");
  benchmark->targets = {0.95, 0.99};
  benchmark->memory_limit = 0;
  benchmark->warm_up_queries = 200;
  flags->search_threads = {1, 2};
  flags->in_flight = {1, 8};
  flags->AddData(*app);
  flags->AddBuild(*app);
  app->add_option("--index", flags->index,
                  "a finished index file, instead of building one of --base and hnswlib's; "
                  "--base is then for those of --adapter");
  flags->AddOthers(*app);
  tools::AddParsed(
      *app, "--memory-limit", ParseSize, &benchmark->memory_limit,
      "of each searching program, page cache included, as 200MiB (default: a quarter of hmann's "
      "index file and 64MiB)");
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
  TierContest* contest = &flags->contest;
  CLI::App* app = eval.add_subcommand("tiers",
                                      "hmann on an emulated slow memory, beside HNSW there, with "
                                      "fast upper layers, in Memory Mode, and by first touch");
  flags->benchmark.targets = {0.95, 0.99};
  flags->search_threads = {1};
  flags->in_flight = {1, 4};
  flags->AddData(*app);
  flags->AddBuild(*app);
  app->add_option("--emulated", contest->emulated,
                  "the slow memory: lat=300ns,bw=6GB/s,lines=12, or a preset, as optane")
      ->check([](const std::string& text) {
        return std::string(EmulationSpec::Parse(text).status().message());
      })
      ->capture_default_str();
  AddFastBytes(*app, &contest->fast_bytes,
               "of fast memory a vector, rows each: of hmann (as many promoted nodes as fit, "
               "without codes, and with codes for the quantised walk) and of Memory Mode and "
               "first-touch");
  app->add_option("--widths", contest->widths,
                  "the ladder of every curve: ef of HNSW, ef_l0 of best-first, ef_l1 of beams")
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
      "scale", "How everything grows with the number of vectors, at equal bytes of fast memory");
  flags->benchmark = options->each;
  flags->benchmark.job.query_rows = 1000;
  flags->AddData(*app, false);
  app->get_option("--base")->description(
      "real vectors; sizes beyond them are made up as `hmann data generate --kind resample` does, "
      "queries too, and labelled so");
  app->add_option("--sizes", flags->sizes, "vectors of each index, ascending: 10k,100k,1M,10M")
      ->delimiter(',')
      ->required();
  flags->AddBuild(*app, false);
  AddFastBytes(*app, &options->fast_bytes,
               "of fast memory a vector: an index each, of every size, of as many promoted nodes "
               "as fit beside codes");
  tools::AddParsed(*app, "--build-memory", ParseSize, &options->build_memory,
                   "memory a build may take, as 8GiB: the rest goes through files in --out");
  app->add_option("--slow", flags->slow,
                  "tier of L0; again for several (default: dram, and nvme, inside a memory limit: "
                  "root, it makes cgroups)")
      ->allow_extra_args(false);
  flags->AddRuns(*app);
  flags->AddOut(*app,
                "--base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --sizes "
                "5k,10k,15k --slow dram --out build/scale");
  return {app, [flags] { return RunScaleCommand(*flags); }};
}

}  // namespace hmann::eval
