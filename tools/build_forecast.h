#pragma once

#include "absl/status/status.h"
#include "index/construct/options.h"

namespace hmann {

/// What `build` would take, for `build --plan`: on stderr, or as one JSON object on
/// stdout. Errors: those of ForecastBuild.
absl::Status PrintForecast(const BuildOptions& build, bool json);

}  // namespace hmann
