#include "eval/scale.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/memory_group.h"
#include "eval/report/environment.h"
#include "eval/scale_data.h"
#include "eval/scale_file.h"
#include "eval/scale_results.h"
#include "eval/scale_search.h"
#include "eval/scale_structure.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/tier.h"
#include "index/tune/build_estimate.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using Say = std::function<void(const std::string&)>;

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

Json Head(const ScaleOptions& options, const VectorFile& base, const VectorFile& queries) {
  const ContestantJob& job = options.job;
  Json shapes = Json::array();
  for (const RunShape& shape : options.shapes) shapes.push_back({shape.threads, shape.in_flight});
  return {{"kind", "scale"},
          {"base", Fingerprint(base)},
          {"queries", Fingerprint(queries)},
          {"query_rows", job.query_rows},
          {"learn", options.learn},
          {"metric", std::string(Name(job.metric))},
          {"m", job.m},
          {"ef_construction", job.ef_construction},
          {"k", job.k},
          {"fast_bytes", options.fast_bytes},
          {"structures_of", options.goal_rows},
          {"walks", options.walks},
          {"tiers", options.tiers},
          {"targets", options.targets},
          {"rounds", options.rounds},
          {"shapes", shapes},
          {"memory_limit", options.memory_limit ? Json(*options.memory_limit) : Json()},
          {"build_memory", options.build_memory},
          {"resample",
           {{"parts", options.resample.parts},
            {"near", options.resample.near},
            {"share", options.resample.share},
            {"seed", options.resample.seed}}}};
}

Json BuildJson(const BuildReport& report, const std::string& from) {
  Json phases = Json::array();
  for (const PhaseTime& phase : report.phases) {
    phases.push_back({{"name", phase.name},
                      {"seconds", phase.seconds},
                      {"cpu_seconds", phase.cpu_seconds},
                      {"anonymous_bytes", phase.anonymous_bytes}});
  }
  Json bytes = Json::array();
  for (const StructureBytes& part : report.info.bytes) {
    bytes.push_back(
        {{"structure", part.name},
         {"tier", part.tier},
         {"a_vector", static_cast<double>(part.bytes) / static_cast<double>(report.info.n)}});
  }
  return {{"from", from},
          {"phases", phases},
          {"seconds", report.phases.back().seconds},
          {"cpu_seconds", report.phases.back().cpu_seconds},
          {"peak_anonymous_bytes", report.peak_anonymous_bytes},
          {"work_bytes", report.work_bytes},
          {"threads", report.threads},
          {"file_bytes", report.info.file_bytes},
          {"bytes", bytes}};
}

/// What an interrupted run has left; nullopt: nothing whole.
std::optional<Json> ReadObject(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, 16_MiB);
  if (!text.ok()) return std::nullopt;
  Json json = Json::parse(*text, nullptr, false);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

/// One size, from its vectors to its line.
class OneSize {
 public:
  OneSize(const ScaleOptions& options, const VectorFile& base, std::uint64_t n, Progress& progress,
          const Say& say)
      : options_(options),
        real_(base),
        n_(n),
        folder_(absl::StrCat(options.job.folder, "/size-", n)),
        progress_(progress),
        say_(say) {}

  /// What the size will take of the disk while it is at work. Errors: of planning.
  absl::StatusOr<std::uint64_t> DiskBytes() const {
    const PlanShape shape = Shape();
    std::uint64_t vectors = NeedsMadeUp(real_, n_) ? n_ * real_.row_bytes() : 0, indexes = 0,
                  work = 0;
    for (const double bytes : options_.fast_bytes) {
      HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, Plan(bytes));
      HMANN_ASSIGN_OR_RETURN(const BuildEstimate estimate,
                             EstimateBuild(shape, plan.structure, 1, options_.build_memory));
      // Two at a time: the next is promoted from the one before.
      indexes = options_.keep ? indexes + plan.file_bytes : std::max(indexes, 2 * plan.file_bytes);
      if (options_.build_memory > 0 && estimate.bounded)
        work = std::max(work, estimate.bounded->work_bytes);
    }
    return vectors + indexes + work;
  }

  absl::StatusOr<Json> Run() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return ErrnoError(error.value(), "mkdir", folder_);
    HMANN_ASSIGN_OR_RETURN(const SizedData data,
                           PrepareSize(options_, real_, n_, folder_, progress_, say_));
    HMANN_ASSIGN_OR_RETURN(const DeviceProfile machine, Measure());
    const MemoryProfile& dram = *machine.Memory("dram");
    Json gathers = Json::array();
    for (const LoadsInFlight& at : dram.in_flight)
      gathers.push_back({{"loads", at.loads}, {"ns_a_line", at.ns_per_line.median}});
    Json line = {{"kind", "size"},
                 {"n", n_},
                 {"made_up", data.made_up},
                 {"queries", data.ask_count},
                 {"learned_from", data.learn_count},
                 {"density", data.density},
                 {"gathers", gathers},
                 {"environment", DescribeEnvironment()},
                 {"indexes", Json::array()}};
    std::string before;
    for (const double bytes : options_.fast_bytes) {
      HMANN_ASSIGN_OR_RETURN(Json index, RunIndex(data, bytes, dram, before));
      if (!before.empty() && !options_.keep) fs::remove(before, error);
      before = PathOf(bytes);
      line["indexes"].push_back(std::move(index));
    }
    return line;
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
    build.metric = options_.job.metric;
    build.m = options_.job.m;
    build.ef_construction = options_.job.ef_construction;
    return ShapeOf(build, n_, real_.dim(), real_.dtype());
  }
  /// What the planner chooses for as many vectors as growth is extrapolated to, where
  /// whole pages and the reserve are little, in this size's numbers: of a small index
  /// they would be most of it, and each size would get another structure.
  absl::StatusOr<PlacementPlan> Plan(double bytes) const {
    PlanShape goal = Shape();
    goal.n = options_.goal_rows;
    HMANN_ASSIGN_OR_RETURN(PlacementPlan plan, PlanForBytes(goal, "nvme", bytes));
    const double share = static_cast<double>(n_) / static_cast<double>(goal.n);
    const auto part = [share](std::uint64_t of) {
      return static_cast<std::uint64_t>(std::llround(share * static_cast<double>(of)));
    };
    plan.structure.n1 = std::clamp<NodeId>(static_cast<NodeId>(part(plan.structure.n1)), 2,
                                           static_cast<NodeId>(n_ - 1));
    plan.cache_bytes = part(plan.cache_bytes);
    for (PlacedBytes& placed : plan.bytes) placed.bytes = part(placed.bytes);
    HMANN_ASSIGN_OR_RETURN(plan.file_bytes, PlannedFileBytes(Shape(), plan.structure));
    return plan;
  }
  std::string PathOf(double bytes) const { return absl::StrFormat("%s/%g.hmann", folder_, bytes); }

  absl::StatusOr<DeviceProfile> Measure() {
    ProfileOptions profile = options_.machine;
    profile.scratch = folder_ + "/probe";
    return MeasureProfile(profile, progress_);
  }

  absl::StatusOr<Json> RunIndex(const SizedData& data, double bytes, const MemoryProfile& dram,
                                const std::string& before) {
    HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, Plan(bytes));
    SizedIndex index;
    index.path = PathOf(bytes);
    index.folder = absl::StrFormat("%s/%g", folder_, bytes);
    index.cache = CacheSettingsOf(plan);
    index.fast_bytes = bytes;
    std::error_code error;
    fs::create_directories(index.folder, error);
    if (error) return ErrnoError(error.value(), "mkdir", index.folder);
    const std::string done = index.folder + "/figures.json";
    if (std::optional<Json> kept = ReadObject(done)) return *std::move(kept);
    HMANN_ASSIGN_OR_RETURN(const Json build, MakeIndex(data, plan, bytes, before));
    HMANN_ASSIGN_OR_RETURN(index.info, ReadInfo(index.path));
    HMANN_ASSIGN_OR_RETURN(const Json searched,
                           SearchOnTiers(options_, data, index, dram, progress_, say_));
    Json line = {
        {"fast_bytes", bytes},
        {"structure", DescribeStructure(Shape(), plan.structure)},
        {"cache_bytes", plan.cache_bytes},
        {"planned_a_vector", static_cast<double>(StructureBytesOf(plan)) / static_cast<double>(n_)},
        {"build", build}};
    line.update(searched);
    HMANN_RETURN_IF_ERROR(WriteTextFile(done, line.dump()));
    return line;
  }

  /// Built out of vectors, or promoted out of the index before, whose L0 is the same;
  /// with what that took kept beside it, written last.
  absl::StatusOr<Json> MakeIndex(const SizedData& data, const PlacementPlan& plan, double bytes,
                                 const std::string& before) {
    const std::string path = PathOf(bytes), kept = path + ".json";
    std::error_code ignored;
    if (fs::exists(path, ignored)) {
      if (std::optional<Json> build = ReadObject(kept)) return *std::move(build);
    }
    BuildOptions build;
    const bool promotes = !before.empty() && fs::exists(before, ignored);
    if (!promotes) {
      build.base = data.base;
      build.rows = n_;
      build.metric = options_.job.metric;
      build.m = options_.job.m;
      build.ef_construction = options_.job.ef_construction;
    } else {
      build.from_index = before;
    }
    build.out = path;
    build.promote = ShareOf(Shape(), plan.structure.n1);
    build.bits = plan.structure.bits;
    build.replicas = plan.structure.replicas;
    build.threads = options_.job.threads;
    build.cancelled = options_.job.cancelled;
    build.memory = options_.build_memory;
    if (build.memory > 0) build.work = absl::StrFormat("%s/work-%g", folder_, bytes);
    say_(absl::StrFormat("  %g bytes: %s, %s", bytes,
                         promotes ? "promoting the one before" : "building",
                         DescribeStructure(Shape(), plan.structure)));
    HMANN_ASSIGN_OR_RETURN(const BuildReport report, Build(build, progress_));
    const Json json = BuildJson(report, promotes ? "promotion" : "vectors");
    HMANN_RETURN_IF_ERROR(WriteTextFile(kept, json.dump()));
    return json;
  }

  const ScaleOptions& options_;
  const VectorFile& real_;
  std::uint64_t n_;
  std::string folder_;
  Progress& progress_;
  const Say& say_;
};

/// Before the work: room for the largest size, or for all that is kept.
absl::Status CheckRoom(const ScaleOptions& options, const VectorFile& base, const ScaleFile& file,
                       Progress& progress, const Say& say) {
  std::uint64_t most = 0, largest = 0;
  for (const std::uint64_t n : options.sizes) {
    if (file.Find(n) != nullptr) continue;
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           OneSize(options, base, n, progress, say).DiskBytes());
    most = options.keep ? most + bytes : std::max(most, bytes);
    largest = n;
  }
  std::error_code error;
  const fs::space_info room = fs::space(options.job.folder, error);
  if (error || room.available >= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(options.job.folder, ": expected room for ", FormatSize(most),
                   " (vectors, "
                   "indexes and work of ",
                   largest, " vectors), found ", FormatSize(room.available)));
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
  for (const std::string& walk : walks) {
    if (walk != "quantised" && walk != "best-first" && walk != "multi-start")
      return absl::InvalidArgumentError(absl::StrCat(
          "walks: expected some of quantised, best-first, multi-start, found '", walk, "'"));
  }
  if (walks.empty() || tiers.empty() || shapes.empty() || learn == 0 || rounds < 1)
    return absl::InvalidArgumentError(
        "scale: expected at least one walk, tier, shape, learning query and round");
  for (const std::string& tier : tiers) HMANN_RETURN_IF_ERROR(MakeTier(tier).status());
  return CheckRecalls("targets", targets);
}

absl::StatusOr<Json> RunScale(const ScaleOptions& options, Progress& progress, const Say& say) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(options.job.base));
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(options.job.queries));
  HMANN_ASSIGN_OR_RETURN(ScaleFile file,
                         ScaleFile::Open(options.job.folder, Head(options, base, queries)));
  for (const std::string& tier : options.tiers) {
    if (tier.starts_with("nvme"))
      HMANN_RETURN_IF_ERROR(MemoryGroup::Create("probe", 64_MiB).status());
  }
  HMANN_RETURN_IF_ERROR(CheckRoom(options, base, file, progress, say));
  Json lines = Json::array();
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    const std::uint64_t n = options.sizes[i];
    const Json* done = file.Find(n);
    say(absl::StrCat("size ", i + 1, " of ", options.sizes.size(), ": ", n, " vectors",
                     NeedsMadeUp(base, n) ? ", made up" : "",
                     done != nullptr ? ", done before" : ""));
    if (done == nullptr) {
      OneSize size(options, base, n, progress, say);
      HMANN_ASSIGN_OR_RETURN(const Json line, size.Run());
      HMANN_RETURN_IF_ERROR(file.Add(line));
      if (!options.keep) size.Clean();
      done = file.Find(n);
    }
    lines.push_back(*done);
  }
  return ScaleFigures(options, Head(options, base, queries), lines);
}

}  // namespace hmann
