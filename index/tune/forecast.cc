#include "index/tune/forecast.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "hmann/hmann.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/construct/bounded.h"
#include "index/construct/inputs.h"
#include "index/construct/jobs/work_folder.h"
#include "index/construct/pipeline.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// Samples grow by this factor until one takes long enough or is large enough, so that
/// users wait only some seconds.
constexpr std::uint64_t kFewestRows = 4000, kMostRows = 256'000, kGrowth = 4;
constexpr double kSampleSeconds = 4;
/// Time grows with a power of the rows: from 64,000 to a million SIFT vectors 1.1, since
/// less of them fits the caches. Short samples may suggest less, or more than 1.3, which
/// is a guess. Both are printed.
constexpr double kSlowestGrowth = 1.1, kFastestGrowth = 1.3;
/// CPU of a build within bounded memory relative to one in memory, because it compares
/// lists from one side. Measured on ten million vectors within 2 GiB; otherwise a guess.
constexpr double kBounded = 1.4;

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

/// Returns the time of building the first `rows`.
absl::StatusOr<PhaseTime> MeasureSample(const BuildOptions& options, std::uint64_t rows,
                                        Progress& progress) {
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
  return report.phases.back();
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

  // Two sample sizes of these vectors show how time grows.
  const std::uint64_t n = forecast.shape.n;
  double growth = 1;
  PhaseTime last;
  for (std::uint64_t rows = std::min(n, kFewestRows);; rows = std::min(n, rows * kGrowth)) {
    HMANN_ASSIGN_OR_RETURN(const PhaseTime took, MeasureSample(options, rows, progress));
    if (last.seconds > 0) {
      growth = std::log(took.seconds / last.seconds) /
               std::log(static_cast<double>(rows) / static_cast<double>(forecast.measured_rows));
    }
    last = took;
    forecast.measured_rows = rows;
    if (rows == n || rows >= kMostRows || took.seconds > kSampleSeconds) break;
  }
  forecast.measured_seconds = last.seconds;
  forecast.growth = std::clamp(growth, kSlowestGrowth, kFastestGrowth);
  const double times =
      (options.memory > 0 ? kBounded : 1) *
      std::pow(static_cast<double>(n) / static_cast<double>(forecast.measured_rows),
               forecast.growth);
  forecast.seconds = last.seconds * times;
  forecast.cpu_seconds = last.cpu_seconds * times;
  return forecast;
}

}  // namespace hmann
