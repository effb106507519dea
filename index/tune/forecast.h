#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/progress.h"
#include "index/tune/plan_structure.h"

namespace hmann {

/// The forecast cost of a requested build.
struct BuildForecast {
  PlanShape shape;
  PlanStructure structure;
  int threads = 1;
  BuildEstimate estimate;
  std::uint64_t measured_rows = 0;  ///< 0: none were built, as with another library's graph
  double measured_seconds = 0;      ///< the time of that trial build
  double growth = 1;                ///< CPU of the build in that of the trial, in memory
  /// Time of the build without its calibration, from these; 0: not known. `seconds` has
  /// `read_seconds`: one pass over the base, or all where no page cache can hold it, at
  /// the rate at which its first bytes were read here.
  double seconds = 0, cpu_seconds = 0, read_seconds = 0;
  double read_bytes_per_second = 0;
};

/// Forecasts a build by building some of the rows for some seconds, in order to measure
/// this machine and these vectors. The trial goes to a file next to options.out that is
/// removed again; nothing else is written. Errors: those of Build that can be known
/// beforehand; RESOURCE_EXHAUSTED also if the disk has no room for the work folder or the
/// index.
absl::StatusOr<BuildForecast> ForecastBuild(const BuildOptions& options, Progress& progress);

}  // namespace hmann
