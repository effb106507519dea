#include "tools/build_forecast.h"

#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/forecast.h"
#include "tools/plan_json.h"
#include "tools/print.h"

namespace hmann {
namespace {

void PrintTime(double cpu_seconds, const BuildForecast& forecast) {
  std::cerr << absl::StrFormat("  time    about %s on %d threads, %s of CPU",
                               FormatDuration(cpu_seconds / forecast.threads), forecast.threads,
                               FormatDuration(cpu_seconds));
  std::cerr << (forecast.measured_rows > 0
                    ? absl::StrFormat(
                          ": %d rows took %s here; how time grows from there was seen on "
                          "one set, elsewhere it is a guess\n",
                          forecast.measured_rows, FormatDuration(forecast.measured_seconds))
                    : std::string(": a guess, from a usual machine's figures\n"));
}

void PrintForTheEye(const BuildOptions& build, const BuildForecast& forecast) {
  const BuildEstimate& estimate = forecast.estimate;
  std::cerr << absl::StrFormat("%s: %d vectors of %d x %s, M = %d: %s\n", build.base,
                               forecast.shape.n, forecast.shape.dim,
                               std::string(Name(forecast.shape.dtype)), forecast.shape.m,
                               DescribeStructure(forecast.shape, forecast.structure));
  if (estimate.bounded.has_value()) {
    std::cerr << absl::StrFormat(
        "  memory  %s, as it was told; %s at least\n  folder  %s at the most (about: how many "
        "links lead far was seen on one set)\n  reads   the base %d times\n",
        FormatSize(build.memory), FormatSize(estimate.bounded->least_bytes),
        FormatSize(estimate.bounded->work_bytes), estimate.bounded->base_passes);
  } else {
    std::cerr << "  memory  " << FormatSize(estimate.memory_bytes) << '\n';
  }
  std::cerr << "  index   " << FormatSize(estimate.file_bytes) << '\n';
  PrintTime(estimate.bounded.has_value() ? estimate.bounded->cpu_seconds : estimate.cpu_seconds,
            forecast);
}

}  // namespace

absl::Status PrintForecast(const BuildOptions& build, bool json) {
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const BuildForecast forecast, ForecastBuild(build, quiet));
  if (json) return PrintJson(ToJson(forecast));
  PrintForTheEye(build, forecast);
  return absl::OkStatus();
}

}  // namespace hmann
