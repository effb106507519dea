#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "index/tune/tune.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// Writes the page of `hmann tune` (eval/report/tuning.html) to `path`: `tuned` as
/// TuningJson gives it, with settings, for each of the tiers `slow`; and from the
/// planner, for what fast memory would buy, `knees`. Errors: those of the index file and
/// of AtomicFile.
absl::Status WriteTuningReport(const TuneOptions& options, const std::vector<std::string>& slow,
                               const nlohmann::ordered_json& tuned, const std::string& path);

}  // namespace hmann
