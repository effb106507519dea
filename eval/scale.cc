#include "eval/scale.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/toolbox/resample.h"
#include "datasets/vector_file.h"
#include "eval/adapters/build_cache.h"
#include "eval/builtin_systems.h"
#include "eval/hardware_limit.h"
#include "eval/results.h"
#include "eval/structure.h"
#include "hmann/tier.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/jobs/near_rows.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;

/// Creates synthetic base and held-out query vectors from the same near rows. Each file
/// is written completely or not at all, the queries last.
absl::Status MakeUp(const BenchmarkData& job, const VectorFile& real, std::uint64_t n,
                    std::uint64_t query_count, Progress& progress) {
  std::error_code ignored;
  if (fs::exists(job.queries, ignored)) return absl::OkStatus();
  HMANN_RETURN_IF_ERROR(MakeFolders(job.work));
  ResampleOptions resample;
  resample.n = n;
  resample.threads = job.threads;
  resample.cancelled = job.cancelled;
  HMANN_RETURN_IF_ERROR(resample.Validate(real));
  ThreadPool pool(resample.threads > 0 ? resample.threads : UsableCores());
  progress.Start("near rows", 0, "rows");
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> near,
                         NearRows(real, resample.near, {pool, progress, job.cancelled}));
  HMANN_RETURN_IF_ERROR(Resample(real, near, resample, job.base, progress));
  resample.n = query_count;
  resample.queries = true;
  return Resample(real, near, resample, job.queries, progress);
}

class Scale {
 public:
  Scale(const ScaleOptions& options, const VectorFile& base, std::uint64_t query_count,
        Progress& progress, const Say& say)
      : options_(options), real_(base), query_count_(query_count), progress_(progress), say_(say) {}

  /// Adds the lines of a size.
  absl::Status Size(std::uint64_t n, std::vector<Json>* lines) const {
    const bool synthetic = n > real_.n();
    lines->push_back(
        {{"kind", "data"}, {"data", n}, {"synthetic", synthetic}, {"queries", query_count_}});
    std::string work;
    for (const double bytes : options_.fast_bytes) {
      for (const std::string& tier : options_.tiers) {
        HMANN_ASSIGN_OR_RETURN(const Benchmark benchmark, Part(n, bytes, tier));
        work = benchmark.job.work;
        HMANN_ASSIGN_OR_RETURN(std::vector<Json> of_part, DoneBefore(benchmark));
        say_(absl::StrFormat("%d vectors%s, %g bytes, %s%s", n, synthetic ? ", synthetic" : "",
                             bytes, tier, of_part.empty() ? "" : ": done before"));
        if (of_part.empty()) {
          if (synthetic)
            HMANN_RETURN_IF_ERROR(MakeUp(benchmark.job, real_, n, query_count_, progress_));
          HMANN_ASSIGN_OR_RETURN(of_part, RunBenchmark(benchmark, progress_, say_));
        }
        lines->insert(lines->end(), of_part.begin() + 1, of_part.end());
      }
    }
    std::error_code ignored;
    fs::remove_all(work, ignored);  // vectors and indexes
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Benchmark> Part(std::uint64_t n, double bytes, const std::string& tier) const {
    Benchmark part = options_.each;
    BenchmarkData& job = part.job;
    const std::string folder = absl::StrCat(job.folder, "/size-", n);
    job.folder = absl::StrFormat("%s/%g-%s", folder, bytes, FileName(tier));
    job.work = folder + "/work";
    part.options = {{"base", FileKey(job.base)},
                    {"queries", FileKey(job.queries)},
                    {"query_count", query_count_},
                    {"k", job.k},
                    {"metric", std::string(Name(job.metric))},
                    {"build_memory", options_.build_memory}};
    part.synthetic = n > real_.n();
    if (part.synthetic) {
      const std::string suffix =
          real_.dtype() == DType::kF32 ? ".fbin" : absl::StrFormat(".%sbin", Name(real_.dtype()));
      job.base = job.work + "/base" + suffix;
      job.queries = job.work + "/query" + suffix;
    }
    job.rows = n;
    if (tier.starts_with("nvme")) part.memory_limit = ScaleMemoryLimit(n, bytes);
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec, System(n, bytes, tier));
    part.systems = {std::move(spec)};
    return part;
  }

  absl::StatusOr<SystemSpec> System(std::uint64_t n, double bytes, const std::string& tier) const {
    const BenchmarkData& job = options_.each.job;
    BuildOptions build;
    build.metric = job.metric;
    build.m = job.m;
    build.ef_construction = job.ef_construction;
    const PlanShape shape = ShapeOf(build, n, real_.dim(), real_.dtype());
    HMANN_ASSIGN_OR_RETURN(const PlanStructure structure,
                           StructureForBytes(shape, bytes, BitsForBytes(shape, bytes)));
    Json settings = BuildSettingsOf(shape, structure);
    settings.update({{"slow", tier}, {"memory", options_.build_memory}});
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem("hmann", settings));
    spec.name = absl::StrFormat("%g B, %s", bytes, tier);
    spec.by_mode = true;
    spec.reported = {{"structure", DescribeStructure(shape, structure)},
                     {"fast_bytes_asked", bytes}};
    return spec;
  }

  const ScaleOptions& options_;
  const VectorFile& real_;
  std::uint64_t query_count_;
  Progress& progress_;
  const Say& say_;
};

}  // namespace

std::uint64_t ScaleMemoryLimit(std::uint64_t n, double fast_bytes) {
  return static_cast<std::uint64_t>(1.1 * fast_bytes * static_cast<double>(n)) + 64_MiB;
}

absl::Status ScaleOptions::Validate() const {
  const bool rising =
      !sizes.empty() && sizes[0] >= 100 &&
      std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) == sizes.end();
  if (!rising)
    return InvalidArgument(
        "sizes: expected at least one, from 100 vectors on, each larger than the one before");
  for (const std::string& tier : tiers) HMANN_RETURN_IF_ERROR(MakeTier(tier).status());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Json>> RunScale(ScaleOptions options, Progress& progress,
                                           const Say& say) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  const BenchmarkData& job = options.each.job;
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base));
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(job.queries, job.query_rows));
  if (options.each.gathers.is_null()) {
    HMANN_ASSIGN_OR_RETURN(options.each.gathers, MeasureGathers());
  }
  std::vector<Json> lines = {HeadLine(options.each, {{"base", job.base},
                                                     {"queries", job.queries},
                                                     {"dim", base.dim()},
                                                     {"dtype", std::string(Name(base.dtype()))},
                                                     {"metric", std::string(Name(job.metric))},
                                                     {"k", job.k},
                                                     {"query_count", queries.n()}})};
  const Scale scale(options, base, queries.n(), progress, say);
  for (const std::uint64_t n : options.sizes) HMANN_RETURN_IF_ERROR(scale.Size(n, &lines));
  HMANN_RETURN_IF_ERROR(WriteResults(job.folder + "/results.jsonl", lines));
  return lines;
}

}  // namespace hmann::eval
