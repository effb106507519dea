#pragma once

#include <string>

#include "absl/status/status.h"
#include "index/tune/tune.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// Writes the page of `hmann tune` (eval/report/tuning.html) to `path`: `tuned` as
/// TuningJson gives it, with settings. Errors: those of the index file and of AtomicFile.
absl::Status WriteTuningReport(const TuneOptions& options, const nlohmann::ordered_json& tuned,
                               const std::string& path);

}  // namespace hmann
