#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/progress.h"
#include "index/tune/plan_structure.h"

namespace hmann {

/// What a build as asked for will take.
struct BuildForecast {
  PlanShape shape;
  PlanStructure structure;
  int threads = 1;
  BuildEstimate estimate;
  std::uint64_t measured_rows = 0;  ///< 0: none were built, as of another library's graph
  double measured_seconds = 0;      ///< that this took, and
  double growth = 1;                ///< the power of the rows that time grew with up to there
  double cpu_seconds = 0;           ///< of the build, from these; 0: not known
};

/// Builds some of the rows, for some seconds, in a file beside options.out that is
/// removed again, in order to know this machine and these vectors; nothing else is
/// written. Errors: those of Build that can be known before: RESOURCE_EXHAUSTED also
/// where the work folder or the index will not find the disk they need.
absl::StatusOr<BuildForecast> ForecastBuild(const BuildOptions& options, Progress& progress);

}  // namespace hmann
