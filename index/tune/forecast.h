#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "index/base/progress.h"
#include "index/construct/options.h"
#include "index/tune/build_estimate.h"
#include "index/tune/plan_structure.h"

namespace hmann {

/// What a build as asked for will take.
struct BuildForecast {
  PlanShape shape;
  PlanStructure structure;
  int threads = 1;
  /// Its time is the formula's, times what some of the vectors were measured to take
  /// beside it.
  BuildEstimate estimate;
  std::uint64_t measured_rows = 0;  ///< 0: none were built, as of another library's graph
  double measured_seconds = 0;      ///< that this took
};

/// Builds some of the rows, for a few seconds, in a file beside options.out that is
/// removed again, in order to know this machine and these vectors; nothing else is
/// written. Errors: those of Build that can be known before: RESOURCE_EXHAUSTED also
/// where the work folder or the index will not find the disk they need.
absl::StatusOr<BuildForecast> ForecastBuild(const BuildOptions& options, Progress& progress);

}  // namespace hmann
