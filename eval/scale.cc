#include "eval/scale.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/hardware_limit.h"
#include "eval/own_contestants.h"
#include "eval/report/environment.h"
#include "eval/results.h"
#include "eval/scale_data.h"
#include "eval/structure.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/bounded.h"
#include "index/hmann.h"
#include "index/tiers/tier.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// Shape, and a checksum of rows spread over the file: what a changed file differs in.
Json Fingerprint(const VectorFile& file) {
  constexpr std::uint64_t kRows = 4096;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < std::min(kRows, file.n()); ++i) {
    const std::uint64_t row = file.n() <= kRows ? i : i * (file.n() - 1) / (kRows - 1);
    sum = sum * 31 + Checksum(file.Row(row), file.row_bytes());
  }
  return {{"n", file.n()},
          {"dim", file.dim()},
          {"dtype", std::string(Name(file.dtype()))},
          {"checksum", absl::StrFormat("%016x", sum)}};
}

/// With all that the sizes follow from in its "options".
Json Head(const ScaleOptions& options, const VectorFile& base, const VectorFile& queries) {
  const ContestantJob& job = options.each.job;
  Json head = HeadLine(options.each, {{"base", job.base},
                                      {"queries", job.queries},
                                      {"dim", base.dim()},
                                      {"dtype", std::string(Name(base.dtype()))},
                                      {"metric", std::string(Name(job.metric))},
                                      {"k", job.k},
                                      {"query_count", queries.n()}});
  head["options"] = {{"base", Fingerprint(base)},
                     {"queries", Fingerprint(queries)},
                     {"metric", head["data"]["metric"]},
                     {"m", job.m},
                     {"ef_construction", job.ef_construction},
                     {"k", job.k},
                     {"fast_bytes", options.fast_bytes},
                     {"tiers", options.tiers},
                     {"targets", head["targets"]},
                     {"rounds", head["rounds"]},
                     {"shapes", head["shapes"]},
                     {"build_memory", options.build_memory}};
  return head;
}

/// How an index was built, for the line of its system.
Json BuildJson(const BuildReport& report, const std::string& from, const std::string& structure) {
  Json phases = Json::object(), bytes = Json::array();
  for (const PhaseTime& phase : report.phases)
    if (phase.name != "total") phases[phase.name] = phase.cpu_seconds;
  for (const StructureBytes& part : report.info.bytes) {
    bytes.push_back(
        {{"structure", part.name},
         {"tier", part.tier},
         {"a_vector", static_cast<double>(part.bytes) / static_cast<double>(report.info.n)}});
  }
  return {{"from", from},
          {"structure", structure},
          {"build_seconds", report.phases.back().seconds},
          {"build_cpu_seconds", report.phases.back().cpu_seconds},
          {"build_threads", report.threads},
          {"peak_anonymous_bytes", report.peak_anonymous_bytes},
          {"work_bytes", report.work_bytes},
          {"phases", phases},
          {"bytes", bytes}};
}

/// One size, from its vectors to its lines.
class OneSize {
 public:
  OneSize(const ScaleOptions& options, const VectorFile& base, std::uint64_t n, Progress& progress,
          const Say& say)
      : options_(options),
        real_(base),
        n_(n),
        folder_(absl::StrCat(options.each.job.folder, "/size-", n)),
        progress_(progress),
        say_(say) {}

  /// What the size will take of the disk while it is at work, but for the work folder of
  /// its builds. Errors: of structures.
  absl::StatusOr<std::uint64_t> DiskBytes() const {
    std::uint64_t vectors = n_ > real_.n() ? n_ * real_.row_bytes() : 0, index = 0;
    for (const double bytes : options_.fast_bytes) {
      HMANN_ASSIGN_OR_RETURN(const PlanStructure structure, Structure(bytes));
      HMANN_ASSIGN_OR_RETURN(const std::uint64_t file, PlannedFileBytes(Shape(), structure));
      index = std::max(index, file);
    }
    return vectors + 2 * index;  // the next is promoted from the one before
  }

  absl::StatusOr<std::vector<Json>> Run() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return ErrnoError(error.value(), "mkdir", folder_);
    HMANN_ASSIGN_OR_RETURN(data_,
                           PrepareSize(options_.each.job, real_, n_, folder_, progress_, say_));
    gathers_ = options_.each.gathers;
    if (gathers_.is_null()) {
      HMANN_ASSIGN_OR_RETURN(gathers_, MeasureGathers(folder_));
    }
    std::vector<Json> lines = {{{"kind", "data"},
                                {"data", n_},
                                {"made_up", data_.made_up},
                                {"queries", data_.query_rows},
                                {"density", data_.density},
                                {"gathers", gathers_},
                                {"environment", DescribeEnvironment()}}};
    std::string before;
    for (const double bytes : options_.fast_bytes) {
      HMANN_RETURN_IF_ERROR(RunIndex(bytes, before, &lines));
      if (!before.empty()) fs::remove(before, error);
      before = PathOf(bytes);
    }
    return lines;
  }

  /// Removes what is large.
  void Clean() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("base.") || name.ends_with(".hmann") || name.starts_with("work-"))
        fs::remove_all(entry.path(), ignored);
    }
  }

 private:
  PlanShape Shape() const {
    BuildOptions build;
    build.metric = options_.each.job.metric;
    build.m = options_.each.job.m;
    build.ef_construction = options_.each.job.ef_construction;
    return ShapeOf(build, n_, real_.dim(), real_.dtype());
  }
  absl::StatusOr<PlanStructure> Structure(double bytes) const {
    return StructureForBytes(Shape(), bytes, BitsForBytes(Shape(), bytes));
  }
  std::string PathOf(double bytes) const { return absl::StrFormat("%s/%g.hmann", folder_, bytes); }

  /// The index on every tier.
  absl::Status RunIndex(double bytes, const std::string& before, std::vector<Json>* lines) {
    std::vector<std::string> folders;
    bool done = true;
    for (const std::string& tier : options_.tiers) {
      folders.push_back(absl::StrFormat("%s/%g-%s", folder_, bytes, FileName(tier)));
      done = done && ReadResults(folders.back() + "/results.jsonl").ok();
    }
    Json built;
    if (!done) {
      HMANN_ASSIGN_OR_RETURN(built, MakeIndex(bytes, before));
    }
    for (std::size_t t = 0; t < folders.size(); ++t) {
      absl::StatusOr<std::vector<Json>> ran = ReadResults(folders[t] + "/results.jsonl");
      if (!ran.ok()) {
        HMANN_ASSIGN_OR_RETURN(const Benchmark benchmark,
                               OnTier(bytes, options_.tiers[t], folders[t], built));
        say_(absl::StrFormat("  %g bytes: searched on %s", bytes, options_.tiers[t]));
        ran = RunBenchmark(benchmark, progress_, [](const std::string&) {});
        HMANN_RETURN_IF_ERROR(ran.status());
      }
      lines->insert(lines->end(), ran->begin() + 1, ran->end());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Benchmark> OnTier(double bytes, const std::string& tier, const std::string& folder,
                                   const Json& built) const {
    Benchmark benchmark = options_.each;
    const std::string name = absl::StrFormat("%g B, %s", bytes, tier);
    HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(PathOf(bytes)));
    HMANN_ASSIGN_OR_RETURN(
        ContestantSpec spec,
        FinishedContestant(name, {{"index", PathOf(bytes)}, {"fast", "dram"}, {"slow", tier}}));
    const bool cells = info.codes.bits > 0;
    spec.settings = Json::array();
    for (const char* walk : {"quantised", "best-first"}) {
      if (!cells && walk == std::string_view("quantised")) continue;
      for (const Json& setting : Ladder(walk, tier, benchmark.job.metric))
        spec.settings.push_back(setting);
      spec.curves.push_back({absl::StrCat(name, ", ", walk), {{"walk", walk}}});
    }
    spec.told = built;
    spec.told["fast_bytes_asked"] = bytes;
    benchmark.contestants = {std::move(spec)};
    benchmark.shape = DataShape{info.n, info.dim, info.dtype};
    benchmark.job.base.clear();
    benchmark.job.queries = data_.queries;
    benchmark.job.query_rows = data_.query_rows;
    benchmark.job.folder = folder;
    benchmark.groundtruth = data_.truth;
    benchmark.made_up = data_.made_up;
    benchmark.gathers = gathers_;
    if (!tier.starts_with("nvme"))
      benchmark.memory_limit.reset();
    else
      benchmark.memory_limit = ScaleMemoryLimit(n_, bytes);
    return benchmark;
  }

  /// Built out of vectors, or promoted out of the index before, whose L0 is the same;
  /// with what that took kept beside it, written last.
  absl::StatusOr<Json> MakeIndex(double bytes, const std::string& before) {
    const std::string path = PathOf(bytes), kept = path + ".json";
    std::error_code ignored;
    if (const absl::StatusOr<std::string> text = ReadTextFile(kept, 16_MiB);
        text.ok() && fs::exists(path, ignored)) {
      Json build = Json::parse(*text, nullptr, false);
      if (build.is_object()) return build;
    }
    HMANN_ASSIGN_OR_RETURN(const PlanStructure structure, Structure(bytes));
    const ContestantJob& job = options_.each.job;
    BuildOptions build;
    const bool promotes = !before.empty() && fs::exists(before, ignored);
    if (!promotes) {
      build.base = data_.base;
      build.rows = n_;
      build.metric = job.metric;
      build.m = job.m;
      build.ef_construction = job.ef_construction;
    } else {
      build.from_index = before;
    }
    build.out = path;
    build.promote = ShareOf(Shape(), structure.n1);
    build.bits = structure.bits;
    build.threads = job.threads;
    build.cancelled = job.cancelled;
    build.memory = options_.build_memory;
    if (build.memory > 0) build.work = absl::StrFormat("%s/work-%g", folder_, bytes);
    const std::string described = DescribeStructure(Shape(), structure);
    say_(absl::StrFormat("  %g bytes: %s, %s", bytes,
                         promotes ? "promoting the one before" : "building", described));
    HMANN_ASSIGN_OR_RETURN(const BuildReport report, Build(build, progress_));
    Json json = BuildJson(report, promotes ? "promotion" : "vectors", described);
    HMANN_RETURN_IF_ERROR(WriteTextFile(kept, json.dump()));
    return json;
  }

  const ScaleOptions& options_;
  const VectorFile& real_;
  std::uint64_t n_;
  std::string folder_;
  Progress& progress_;
  const Say& say_;
  SizedData data_;
  Json gathers_;
};

/// The lines of an earlier run of the same; the first alone where there was none.
absl::StatusOr<std::vector<Json>> LinesSoFar(const std::string& folder, const Json& head) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", folder);
  const std::string path = folder + "/results.jsonl";
  if (!fs::exists(path, error)) {
    if (!fs::is_empty(folder, error)) {
      return absl::FailedPreconditionError(absl::StrCat(
          folder, ": expected an empty folder, or one with results.jsonl, found something else"));
    }
    HMANN_RETURN_IF_ERROR(WriteResults(path, {head}));
  }
  HMANN_ASSIGN_OR_RETURN(std::vector<Json> lines, ReadResults(path));
  for (const auto& [key, value] : head["options"].items()) {
    const Json found = lines[0].value("options", Json::object()).value(key, Json());
    if (found == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected ", key, " ", value.dump(), ", found ", found.dump(),
                     ": its sizes were measured of something else (another --out)"));
  }
  return lines;
}

/// The part of all lines that is of one size; {}: it is not done.
std::vector<Json> LinesOf(const std::vector<Json>& lines, std::uint64_t n) {
  std::vector<Json> of_size;
  for (const Json& line : lines)
    if (line.value("data", Json()) == n) of_size.push_back(line);
  return of_size;
}

/// Before the work: room for the largest size.
absl::Status CheckRoom(const ScaleOptions& options, const VectorFile& base,
                       const std::vector<Json>& lines, Progress& progress, const Say& say) {
  std::uint64_t most = 0;
  for (const std::uint64_t n : options.sizes) {
    if (!LinesOf(lines, n).empty()) continue;
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           OneSize(options, base, n, progress, say).DiskBytes());
    most = std::max(most, bytes);
  }
  return CheckDiskRoom(options.each.job.folder, "vectors and indexes of the largest size", most);
}

}  // namespace

std::uint64_t ScaleMemoryLimit(std::uint64_t n, double fast_bytes) {
  return static_cast<std::uint64_t>(1.1 * fast_bytes * static_cast<double>(n)) + 64_MiB;
}

absl::Status ScaleOptions::Validate() const {
  const bool rising =
      !sizes.empty() && sizes[0] >= 100 &&
      std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) == sizes.end();
  if (!rising)
    return absl::InvalidArgumentError(
        "sizes: expected at least one, from 100 vectors on, each larger than the one before");
  if (fast_bytes.empty() || *std::min_element(fast_bytes.begin(), fast_bytes.end()) <= 0)
    return absl::InvalidArgumentError("fast bytes: expected at least one number above 0");
  if (tiers.empty() || each.shapes.empty() || each.rounds < 1)
    return absl::InvalidArgumentError("scale: expected at least one tier, shape and round");
  for (const std::string& tier : tiers) HMANN_RETURN_IF_ERROR(MakeTier(tier).status());
  return CheckRecalls("targets", each.targets);
}

absl::StatusOr<std::vector<Json>> RunScale(const ScaleOptions& options, Progress& progress,
                                           const Say& say) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  const ContestantJob& job = options.each.job;
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base));
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(job.queries, job.query_rows));
  HMANN_ASSIGN_OR_RETURN(std::vector<Json> lines,
                         LinesSoFar(job.folder, Head(options, base, queries)));
  HMANN_RETURN_IF_ERROR(CheckRoom(options, base, lines, progress, say));
  std::vector<Json> asked = {lines[0]};
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    const std::uint64_t n = options.sizes[i];
    std::vector<Json> of_size = LinesOf(lines, n);
    say(absl::StrCat("size ", i + 1, " of ", options.sizes.size(), ": ", n, " vectors",
                     n > base.n() ? ", made up" : "", of_size.empty() ? "" : ", done before"));
    if (of_size.empty()) {
      OneSize size(options, base, n, progress, say);
      HMANN_ASSIGN_OR_RETURN(of_size, size.Run());
      lines.insert(lines.end(), of_size.begin(), of_size.end());
      HMANN_RETURN_IF_ERROR(WriteResults(job.folder + "/results.jsonl", lines));
      size.Clean();
    }
    asked.insert(asked.end(), of_size.begin(), of_size.end());
  }
  return asked;
}

}  // namespace hmann
