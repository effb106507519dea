#pragma once

#include "absl/status/statusor.h"
#include "index/base/progress.h"
#include "index/construct/options.h"

namespace hmann {

/// Algorithm 1 from a vector file to an index file; see hmann::Build.
absl::StatusOr<BuildReport> BuildIndex(const BuildOptions& options, Progress& progress);

}  // namespace hmann
