#include "index/tune/forecast.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "hmann/hmann.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/bounded.h"
#include "index/construct/graph/bottom_layer.h"
#include "index/construct/inputs.h"
#include "index/construct/jobs/partition.h"
#include "index/construct/jobs/work_folder.h"
#include "index/construct/pipeline.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// Samples grow by this factor until one takes long enough or is large enough, so that
/// users wait only some seconds.
constexpr std::uint64_t kFewestRows = 4000, kMostRows = 256'000, kGrowth = 4;
constexpr double kSampleSeconds = 4;
/// CPU of joining and linking within bounded memory relative to the same in memory,
/// because lists are compared from one side and vectors are copied again. Measured on a
/// million SIFT vectors within 150 MiB; for other data and sizes it is a guess.
constexpr double kBounded = 1.7;

/// Checks the disks of folder and index, which may be the same. An interrupted build's
/// files in the folder are reused.
absl::Status CheckDisks(const BuildOptions& options, const BuildEstimate& estimate) {
  std::error_code error;
  HMANN_ASSIGN_OR_RETURN(const std::string file, FileToWrite(options.out));
  const std::string out = fs::absolute(file, error).parent_path().string();
  if (!estimate.bounded.has_value()) return CheckDiskRoom(out, "the index", estimate.file_bytes);
  const BoundedPlan& work = *estimate.bounded;
  const std::uint64_t there = WorkFolder::BytesOf(options.work);
  HMANN_RETURN_IF_ERROR(CheckDiskRoom(options.work, "the work folder", work.work_bytes, there));
  struct stat a {
  }, b{};
  const bool one_disk = ::stat(StandingPart(options.work).c_str(), &a) == 0 &&
                        ::stat(StandingPart(out).c_str(), &b) == 0 && a.st_dev == b.st_dev;
  if (!one_disk) return CheckDiskRoom(out, "the index", estimate.file_bytes);
  return CheckDiskRoom(out, "the index next to the work folder",
                       work.work_bytes_at_end + estimate.file_bytes, there);
}

absl::Status CheckMemory(const BuildOptions& options, const BuildShape& shape) {
  return options.memory > 0 ? DivideMemory(shape, options.memory, options.workers).status()
                            : CheckBuildBytes(shape);
}

/// Returns the times of building the first `rows`, the last in all.
absl::StatusOr<std::vector<PhaseTime>> MeasureSample(const BuildOptions& options,
                                                     std::uint64_t rows, Progress& progress) {
  BuildOptions sample = options;
  sample.rows = rows;
  sample.memory = 0;
  sample.workers = 0;
  sample.work.clear();
  sample.labels.clear();
  sample.label_values = {};
  sample.out = UniqueName(options.out + ".plan");
  const auto remove = absl::MakeCleanup([&] {
    std::error_code error;
    fs::remove(sample.out, error);
  });
  HMANN_ASSIGN_OR_RETURN(const BuildReport report, BuildIndex(sample, progress));
  return report.phases;
}

bool EndsInOneOf(std::string_view phase, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return phase.ends_with(name); });
}

/// How much more a phase does for n rows than for `sample`, by counts: a vector is in
/// PartitionOptions::fan groups, and an insertion is a search, which grows with the
/// logarithm. Seconds of two short trials would say less: they are noisy.
double GrowthOf(const std::string& phase, BuildMethod method, double promoted, std::uint64_t sample,
                std::uint64_t n) {
  const auto work = [&](std::uint64_t rows) {
    const auto upper = static_cast<NodeId>(promoted * static_cast<double>(rows));
    NodeId inserted = 0;
    if (phase == "insert") inserted = static_cast<NodeId>(rows);
    if (phase == "backbone") inserted = BackboneOf(static_cast<NodeId>(rows), kBackboneOfL0);
    if (phase == "promote")
      inserted = method == BuildMethod::kInsertion ? upper : BackboneOf(upper, kBackboneOfL1);
    if (inserted > 0) return inserted * std::log(inserted + 1.0);
    if (phase == "self-recall" || phase == "codes") return 1.0;  // of a sample
    const bool groups = EndsInOneOf(phase, {"split", "join"});
    return static_cast<double>(rows) *
           (groups ? PartitionFor(phase.starts_with("L1 ") ? upper : rows, 0).fan : 1);
  };
  return work(n) / work(sample);
}

/// Forecasts the build out of the phases of the trial, the last of which is their sum.
void AddPhases(const std::vector<PhaseTime>& phases, bool bounded, BuildForecast& forecast) {
  const PlanShape& shape = forecast.shape;
  const double promoted = static_cast<double>(forecast.structure.n1) / static_cast<double>(shape.n);
  double grown = 0;
  for (std::size_t i = 0; i + 1 < phases.size(); ++i) {
    const PhaseTime& phase = phases[i];
    const double growth =
        GrowthOf(phase.name, shape.method, promoted, forecast.measured_rows, shape.n);
    const double times =
        bounded && EndsInOneOf(phase.name, {"join", "select", "link back", "merge backbone"})
            ? kBounded
            : 1;
    grown += growth * phase.cpu_seconds;
    forecast.seconds += times * growth * phase.seconds;
    forecast.cpu_seconds += times * growth * phase.cpu_seconds;
  }
  forecast.growth = grown / phases.back().cpu_seconds;
}

/// Bytes a second at which a file is read from its device, in order. 0: it cannot be
/// read.
double MeasureReading(const std::string& path) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kStep = 4_MiB, kMost = 512_MiB;
  constexpr std::chrono::milliseconds kLong(500);
  const absl::StatusOr<FileDescriptor> file = FileDescriptor::Open(path, O_RDONLY);
  if (!file.ok()) return 0;
  ::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> bytes(kStep);
  std::size_t read = 0;
  const Clock::time_point start = Clock::now();
  while (read < kMost && Clock::now() - start < kLong) {
    const ssize_t got = ::pread(file->fd(), bytes.data(), kStep, static_cast<off_t>(read));
    if (got <= 0) break;
    read += static_cast<std::size_t>(got);
  }
  return static_cast<double>(read) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

absl::StatusOr<BuildForecast> ForecastBuild(const BuildOptions& options, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  HMANN_RETURN_IF_ERROR(options.CheckOut());
  BuildForecast forecast;
  HMANN_ASSIGN_OR_RETURN(const BuildInputs inputs, BuildInputs::Open(options));
  HMANN_ASSIGN_OR_RETURN(forecast.shape, ShapeOf(options));
  const NodeId n1 = inputs.n1();
  forecast.structure = {n1, inputs.bits(), inputs.replicas()};
  forecast.threads = options.threads > 0 ? options.threads : UsableCores();
  HMANN_ASSIGN_OR_RETURN(forecast.estimate,
                         EstimateBuild(forecast.shape, forecast.structure, options.memory));
  HMANN_RETURN_IF_ERROR(CheckMemory(options, inputs.Shape(n1)));
  HMANN_RETURN_IF_ERROR(CheckDisks(options, forecast.estimate));
  if (inputs.has_graph()) return forecast;

  const std::uint64_t n = forecast.shape.n;
  std::vector<PhaseTime> phases;
  for (std::uint64_t rows = std::min(n, kFewestRows);; rows = std::min(n, rows * kGrowth)) {
    HMANN_ASSIGN_OR_RETURN(phases, MeasureSample(options, rows, progress));
    forecast.measured_rows = rows;
    if (rows == n || rows >= kMostRows || phases.back().seconds > kSampleSeconds) break;
  }
  forecast.measured_seconds = phases.back().seconds;
  AddPhases(phases, options.memory > 0, forecast);
  const PlanShape& shape = forecast.shape;
  const std::uint64_t base = n * shape.dim * SizeOf(shape.dtype);
  if (forecast.estimate.bounded.has_value() && !options.base.empty()) {
    forecast.read_bytes_per_second = MeasureReading(options.base);
    const std::uint32_t passes =
        base > UsableMemoryBytes() ? forecast.estimate.bounded->base_passes : 1;
    if (forecast.read_bytes_per_second > 0)
      forecast.read_seconds =
          static_cast<double>(passes) * static_cast<double>(base) / forecast.read_bytes_per_second;
  }
  forecast.seconds += forecast.read_seconds;
  return forecast;
}

}  // namespace hmann
