#include "index/tune/forecast.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/bounded.h"
#include "index/construct/inputs.h"
#include "index/construct/work_folder.h"
#include "index/hmann.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// What the formula says that the sample may take: it is known to a factor of two or so,
/// and ten seconds are what a user is asked to wait.
constexpr double kSampleSeconds = 4;
constexpr std::uint64_t kMostRows = 200'000, kLeastRows = 1000;

/// Folder and index, which may be on one disk: what an interrupted build has left in the
/// folder is used again.
absl::Status CheckDisks(const BuildOptions& options, const BuildEstimate& estimate) {
  std::error_code error;
  const std::string out = fs::absolute(options.out, error).parent_path().string();
  if (!estimate.bounded.has_value()) return CheckDiskRoom(out, "the index", estimate.file_bytes);
  const BoundedPlan& work = *estimate.bounded;
  const std::uint64_t there = WorkFolder::BytesOf(options.work);
  HMANN_RETURN_IF_ERROR(CheckDiskRoom(options.work, "the work folder", work.work_bytes, there));
  struct stat a {
  }, b{};
  const bool one_disk = ::stat(StandingPart(options.work).c_str(), &a) == 0 &&
                        ::stat(StandingPart(out).c_str(), &b) == 0 && a.st_dev == b.st_dev;
  if (!one_disk) return CheckDiskRoom(out, "the index", estimate.file_bytes);
  return CheckDiskRoom(out, "the index beside the work folder",
                       work.work_bytes_at_end + estimate.file_bytes, there);
}

absl::Status CheckMemory(const BuildOptions& options, const BuildShape& shape) {
  return options.memory > 0 ? DivideMemory(shape, options.memory, options.workers).status()
                            : CheckBuildBytes(shape);
}

/// CPU seconds of building the first `rows`, by all threads.
absl::StatusOr<double> MeasureSample(const BuildOptions& options, std::uint64_t rows,
                                     Progress& progress) {
  BuildOptions sample = options;
  sample.rows = rows;
  sample.memory = 0;
  sample.workers = 0;
  sample.work.clear();
  sample.labels.clear();
  sample.label_values = {};
  sample.out = absl::StrCat(options.out, ".plan.", getpid());
  const auto remove = absl::MakeCleanup([&] {
    std::error_code error;
    fs::remove(sample.out, error);
  });
  HMANN_ASSIGN_OR_RETURN(const BuildReport report, Build(sample, progress));
  return report.phases.back().cpu_seconds;
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
  const auto estimate = [&](std::uint64_t n, std::uint64_t n1, std::uint64_t memory) {
    PlanShape shape = forecast.shape;
    shape.n = n;
    PlanStructure structure = forecast.structure;
    structure.n1 = static_cast<NodeId>(n1);
    return EstimateBuild(shape, structure, forecast.threads, memory);
  };
  const std::uint64_t n = forecast.shape.n;
  HMANN_ASSIGN_OR_RETURN(forecast.estimate, estimate(n, n1, options.memory));
  HMANN_RETURN_IF_ERROR(CheckMemory(options, inputs.Shape(n1)));
  HMANN_RETURN_IF_ERROR(CheckDisks(options, forecast.estimate));
  if (inputs.has_graph()) return forecast;

  const double promoted = static_cast<double>(n1) / static_cast<double>(n);
  std::uint64_t rows = std::min(n, kMostRows);
  absl::StatusOr<BuildEstimate> expected;
  for (;; rows /= 2) {
    expected = estimate(rows, static_cast<std::uint64_t>(promoted * static_cast<double>(rows)), 0);
    HMANN_RETURN_IF_ERROR(expected.status());
    if (expected->seconds <= kSampleSeconds || rows / 2 < kLeastRows) break;
  }
  HMANN_ASSIGN_OR_RETURN(const double cpu, MeasureSample(options, rows, progress));
  const double factor = cpu / expected->cpu_seconds;
  forecast.measured_rows = rows;
  forecast.measured_seconds = cpu / forecast.threads;
  forecast.estimate.seconds *= factor;
  forecast.estimate.cpu_seconds *= factor;
  if (forecast.estimate.bounded.has_value()) forecast.estimate.bounded->cpu_seconds *= factor;
  return forecast;
}

}  // namespace hmann
