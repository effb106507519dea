#include "eval/paper/paper.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "eval/adapters/build_cache.h"
#include "eval/builtin_systems.h"
#include "eval/hardware_limit.h"
#include "eval/results.h"
#include "eval/tier_benchmark.h"
#include "hmann/build_options.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 8;  // of a query: the paper has 4; more than cores are counted

/// One setting for each width.
Json Widths(const char* key, const std::vector<int>& widths, const Json& more) {
  Json settings = Json::array();
  for (const int width : widths) {
    settings.push_back(more);
    settings.back()[key] = width;
  }
  return settings;
}
Json Efs() {
  return Widths("ef", {10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320}, Json::object());
}
Json MultiStart() {
  return Widths("ef_l1", {1, 2, 3, 5, 8, 12, 18, 28, 44, 70, 110, 170, 260},
                {{"mode", "multi-start"}, {"ef_l0", 2}});
}
Json Graph() {
  return Widths("ef_l0", {4, 6, 9, 13, 19, 28, 40, 60, 90, 130, 190, 280},
                {{"mode", "graph"}, {"ef_l1", 1}, {"epsilon", -1}});
}

/// HM-ANN as the paper builds it. Distances are counted, so none may be by scalar codes.
Json AsWritten() {
  return {
      {"method", "insertion"}, {"alpha", 1}, {"bits", 0}, {"promote", kDefaultPromote}, {"sq", 0}};
}
Json AsRun() { return {{"sq", 0}}; }

absl::StatusOr<SystemSpec> Named(const char* system, const std::string& name, const Json& build,
                                 Json settings) {
  HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem(system, build));
  spec.name = name;
  spec.settings = std::move(settings);
  return spec;
}

/// The parts, each a benchmark.
class Paper {
 public:
  Paper(const PaperScale& scale, const Benchmark& each, Progress& progress, const Say& say)
      : scale_(scale), each_(each), progress_(progress), say_(say) {}

  absl::StatusOr<std::vector<Json>> Run() {
    HMANN_RETURN_IF_ERROR(Open());
    for (const std::uint64_t n : parts_.sizes)
      for (const std::uint32_t k : {1u, 10u, 100u}) HMANN_RETURN_IF_ERROR(Dram(n, k));
    for (const std::uint64_t n : {parts_.sizes[1], parts_.sizes[2]})
      for (const std::uint32_t k : {1u, 10u, 100u}) HMANN_RETURN_IF_ERROR(Promotion(n, k));
    HMANN_RETURN_IF_ERROR(Tiers());
    HMANN_RETURN_IF_ERROR(Grid());
    HMANN_ASSIGN_OR_RETURN(const std::vector<Json> claims, JudgeClaims(parts_));
    lines_.insert(lines_.end(), claims.begin(), claims.end());
    HMANN_RETURN_IF_ERROR(WriteResults(each_.job.folder + "/results.jsonl", lines_));
    return std::move(lines_);
  }

 private:
  std::uint64_t n() const { return parts_.sizes.back(); }

  /// Checks the inputs and writes two files: queries to learn from, and the others, which
  /// give the figures.
  absl::Status Open() {
    BenchmarkData& job = each_.job;
    if (job.metric != Metric::kL2)
      return InvalidArgument("metric: expected l2, as in the paper, found ",
                             std::string(Name(job.metric)));
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, scale_.rows));
    HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(job.queries));
    const std::uint64_t learning = scale_.learning_queries;
    if (base.n() < kLeast || queries.n() < 2 * learning)
      return InvalidArgument("expected at least ", kLeast, " vectors and ", 2 * learning,
                             " queries, found ", base.n(), " and ", queries.n());
    parts_.dim = base.dim();
    parts_.dtype = base.dtype();
    parts_.m = job.m;
    for (const std::uint64_t size : {base.n() / 16, base.n() / 4, base.n()})
      parts_.sizes.push_back(size);
    parts_.promoted_bytes = kDefaultPromote * static_cast<double>(IndexBytes(base) - 20);
    HMANN_RETURN_IF_ERROR(CheckRoom(base));
    HMANN_RETURN_IF_ERROR(MakeFolders(job.folder));
    key_ = {{"base", FileKey(job.base)}, {"queries", FileKey(job.queries)}, {"scale", scale_.name}};
    HMANN_ASSIGN_OR_RETURN(const SystemSpec engine, BuiltinSystem("hmann"));
    key_["engine"] = FileKey(engine.command[0]);
    const std::uint64_t told = std::min(queries.n() - learning, scale_.queries);
    HMANN_RETURN_IF_ERROR(Slice(queries, 0, learning, &learn_));
    HMANN_RETURN_IF_ERROR(Slice(queries, learning, learning + told, &told_));
    HMANN_ASSIGN_OR_RETURN(each_.gathers, MeasureGathers());
    return absl::OkStatus();
  }

  /// Bytes that a vector takes, roughly.
  std::uint64_t IndexBytes(const VectorFile& base) const {
    return base.row_bytes() + 8 * std::uint64_t{each_.job.m} + 24;
  }

  /// Estimates: the build of NSG has floats three times and 64 nearest rows; in "tiers"
  /// twelve programs hold an index each.
  absl::Status CheckRoom(const VectorFile& base) const {
    const std::uint64_t index = IndexBytes(base), floats = std::uint64_t{4} * base.dim(),
                        memory = base.n() * std::max(12 * index, 3 * floats + 1000),
                        disk = base.n() * (30 * index + 6 * floats);
    if (memory > UsableMemoryBytes())
      return ResourceExhausted("--scale ", scale_.name, ": needs about ", FormatSize(memory),
                               " of memory, there are ", FormatSize(UsableMemoryBytes()),
                               ": choose a smaller scale");
    std::error_code error;
    const fs::path folder = fs::absolute(each_.job.folder).lexically_normal();
    fs::path there = folder;
    while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
    const fs::space_info space = fs::space(there, error);
    if (error || fs::exists(folder / "results.jsonl") || space.available >= disk)
      return absl::OkStatus();
    return ResourceExhausted("--scale ", scale_.name, ": needs about ", FormatSize(disk),
                             " of disk in ", folder.string(), ", there are ",
                             FormatSize(space.available),
                             ": choose a smaller scale or another --out");
  }

  absl::Status Slice(const VectorFile& from, std::uint64_t begin, std::uint64_t end,
                     std::string* path) {
    const std::string suffix =
        from.dtype() == DType::kF32 ? ".fbin" : absl::StrFormat(".%sbin", Name(from.dtype()));
    *path = absl::StrCat(each_.job.folder, "/queries-", begin, "-", end, suffix);
    HMANN_ASSIGN_OR_RETURN(VectorWriter writer, VectorWriter::Create(*path, from.dim()));
    for (std::uint64_t i = begin; i < end; ++i)
      HMANN_RETURN_IF_ERROR(writer.Append(from.Row(i), 1));
    return writer.Commit();
  }

  Benchmark Part(std::uint64_t n, std::uint32_t k) const {
    Benchmark part = each_;
    part.job.rows = n;
    part.job.k = k;
    part.job.queries = told_;
    part.job.work = absl::StrCat(each_.job.folder, "/indexes-", n);
    part.options = key_;
    part.options["k"] = k;
    return part;
  }

  /// Runs a part, unless it was done before.
  absl::StatusOr<std::vector<Json>> RunPart(Benchmark part, const std::string& name) {
    part.title = absl::StrCat("HM-ANN, ", name);
    part.job.folder = absl::StrCat(each_.job.folder, "/", name);
    HMANN_ASSIGN_OR_RETURN(std::vector<Json> lines, DoneBefore(part));
    say_(absl::StrCat(name, lines.empty() ? "" : ": done before"));
    if (lines.empty()) {
      HMANN_ASSIGN_OR_RETURN(lines, RunBenchmark(part, progress_, say_));
    }
    parts_.figures[name] = FiguresOf(lines);
    return lines;
  }

  /// Every system in DRAM.
  absl::Status Dram(std::uint64_t n, std::uint32_t k) {
    Benchmark part = Part(n, k);
    const bool bytes = parts_.dtype == DType::kU8;
    for (const auto& [system, name, build, settings] :
         {std::tuple(bytes ? "hnswlib-u8" : "hnswlib", kHnsw, Json::object(), Efs()),
          {"faiss-nsg", kNsg, Json::object(), Efs()},
          {"faiss-imi", kImi, Json::object(), Json()},
          {"hmann", kWritten, AsWritten(), MultiStart()},
          {"hmann", kRun, AsRun(), Graph()}}) {
      if (name == kImi && n < this->n()) continue;  // its codebooks are for the full size
      HMANN_ASSIGN_OR_RETURN(SystemSpec spec, Named(system, name, build, settings));
      part.systems.push_back(std::move(spec));
    }
    part.reference = kHnsw;
    HMANN_ASSIGN_OR_RETURN(const std::vector<Json> lines,
                           RunPart(std::move(part), absl::StrCat("dram-k", k, "-", n)));
    if (k != 1) return absl::OkStatus();
    if (lines_.empty()) {
      lines_.push_back(lines[0]);
      lines_[0]["title"] = "HM-ANN, claim by claim: recall@1 in DRAM";
      lines_[0]["data"].erase("n");
    }
    lines_.push_back({{"kind", "data"},
                      {"data", n},
                      {"synthetic", false},
                      {"queries", lines[0]["data"]["query_count"]}});
    lines_.insert(lines_.end(), lines.begin() + 1, lines.end());
    return absl::OkStatus();
  }

  /// Promotion by degree and at random, at equal N_1.
  absl::Status Promotion(std::uint64_t n, std::uint32_t k) {
    Benchmark part = Part(n, k);
    part.shapes = {{1, 1}};  // for latencies
    for (const int m : {16, 48}) {
      for (const char* rank : {"degree", "random"}) {
        Json build = AsWritten(), settings = MultiStart();
        build.update({{"m", m}, {"rank", rank}});
        for (const Json& setting : Graph()) settings.push_back(setting);
        const std::string name = absl::StrCat("M ", m, ", by ", rank);
        HMANN_ASSIGN_OR_RETURN(SystemSpec spec, Named("hmann", name, build, settings));
        spec.by_mode = true;
        part.systems.push_back(std::move(spec));
      }
    }
    return RunPart(std::move(part), absl::StrCat("promotion-k", k, "-", n)).status();
  }

  /// Stepping stones from HNSW to HM-ANN, Memory Mode and first touch, on emulated
  /// Optane.
  absl::Status Tiers() {
    Benchmark part = Part(n(), 1);
    part.shapes = {{1, 1}, {1, 4}};
    part.clock = RunClock::kWall;  // the threads of a query overlap
    TierBenchmark tiers;
    tiers.emulated = "optane";
    tiers.fast_bytes = {parts_.promoted_bytes};
    tiers.widths = {10, 20, 40, 80, 160, 320};
    HMANN_ASSIGN_OR_RETURN(tiers.baseline_graph, BuildBaselineGraph(part.job));
    PlanShape shape;
    shape.n = n();
    shape.dim = parts_.dim;
    shape.dtype = parts_.dtype;
    shape.m = each_.job.m;
    HMANN_RETURN_IF_ERROR(AddTiers(tiers, shape, &part));
    // HNSW's own upper layers are a random 1 / M of the nodes.
    for (const auto& [name, more] :
         {std::pair(std::string("HNSW, parallel L0"),
                    Json{{"promote", 1.0 / each_.job.m}, {"rank", "random"}}),
          {"HNSW, promotion, parallel L0", Json{{"promote", kDefaultPromote}}}}) {
      Json build = more, settings = Json::array();
      build.update({{"from_hnswlib", tiers.baseline_graph},
                    {"bits", 0},
                    {"slow", "emulated:" + tiers.emulated}});
      HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem("hmann", build));
      spec.name = name;
      spec.keeps_several = false;
      // In rounds: as if all threads share a visited set, and expand a candidate each a
      // round.
      for (const auto& [form, key, ladder] : {std::tuple(", Thr ", "query_threads", MultiStart()),
                                              {", rounds of ", "beam_width", Graph()}}) {
        for (int threads = 1; threads <= kMostThreads; threads *= 2) {
          const Json match = {{"mode", ladder[0]["mode"]}, {key, threads}};
          spec.curves.push_back({absl::StrCat(name, form, threads), match, "emulated"});
          for (Json setting : ladder) {
            setting.update({{key, threads}, {"prefetch", "off"}});
            settings.push_back(std::move(setting));
          }
        }
      }
      spec.settings = std::move(settings);
      part.systems.push_back(std::move(spec));
    }
    return RunPart(std::move(part), "tiers").status();
  }

  /// Equation 3.1 on the paper's grid, with the queries that are learned from, on
  /// emulated Optane; then what it has chosen, with the others.
  absl::Status Grid() {
    Json settings = Json::array();
    for (int ef_l1 = 1; ef_l1 <= 50; ef_l1 += scale_.grid_step) {
      for (int ef_l0 = 0; ef_l0 <= 50; ef_l0 += scale_.grid_step)
        settings.push_back(ef_l0 == 0
                               ? Json{{"mode", "upper"}, {"ef_l1", ef_l1}}
                               : Json{{"mode", "multi-start"}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}});
    }
    for (const char* name : {"grid", "told"}) {
      const bool learns = name == std::string_view("grid");
      Benchmark part = Part(n(), 1);
      if (learns) part.job.queries = learn_;
      part.rounds = 1;
      Json build = AsWritten();
      build["slow"] = "emulated:optane";
      HMANN_ASSIGN_OR_RETURN(SystemSpec spec, Named("hmann", kWritten, build, settings));
      spec.curves = {{kWritten, Json::object(), "emulated"}};
      part.systems = {std::move(spec)};
      part.options["settings"] = settings.size();
      HMANN_RETURN_IF_ERROR(RunPart(std::move(part), name).status());
      if (learns) settings = PickByGrid(parts_.figures[name]);
    }
    return absl::OkStatus();
  }

  static constexpr std::uint64_t kLeast = 2000;

  const PaperScale& scale_;
  Benchmark each_;
  Progress& progress_;
  const Say& say_;
  PaperParts parts_;
  Json key_;                  ///< what all parts depend on
  std::string learn_, told_;  ///< query files
  std::vector<Json> lines_;
};

}  // namespace

const std::vector<PaperScale>& PaperScales() {
  static const auto* scales = new std::vector<PaperScale>{{"sample", 0, 100, 50, 7},
                                                          {"200k", 200'000, 1000, 50, 2},
                                                          {"1M", 1'000'000, 2000, 100, 1},
                                                          {"10M", 10'000'000, 2000, 100, 1}};
  return *scales;
}

absl::StatusOr<std::vector<Json>> RunPaper(const PaperScale& scale, const Benchmark& each,
                                           Progress& progress, const Say& say) {
  return Paper(scale, each, progress, say).Run();
}

}  // namespace hmann::eval
