#pragma once

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/progress.h"

namespace hmann {

/// Algorithm 1 from a vector file to an index file: what hmann::Build does before it
/// calibrates. Errors: as Build.
absl::StatusOr<BuildReport> BuildIndex(const BuildOptions& options, Progress& progress);

}  // namespace hmann
