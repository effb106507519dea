#pragma once

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/progress.h"

namespace hmann {

/// Runs Algorithm 1 from a vector file to an index file: the part of hmann::Build before
/// calibration. Errors: as Build.
absl::StatusOr<BuildReport> BuildIndex(const BuildOptions& options, Progress& progress);

}  // namespace hmann
