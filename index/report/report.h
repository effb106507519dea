#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/build.h"
#include "hmann/info.h"
#include "hmann/tune.h"
#include "index/tune/forecast.h"
#include "index/tune/plan_report.h"
#include "index/tune/plan_structure.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What `info --json` prints, under the names of the surface. `bytes` has an object per
/// structure; a structure without a formula has `formula` null. The hash is a string of
/// 16 hex digits: a JSON number would lose bits.
nlohmann::ordered_json ToJson(const IndexInfo& info);

/// Of an open index.
nlohmann::ordered_json ToJson(const std::vector<Placement>& placements);

/// What `build --json` prints.
nlohmann::ordered_json ToJson(const BuildReport& report);

/// What default dials are expected to give, a line each for the eye; what went wrong,
/// where it was wanted and failed.
std::string Describe(const absl::StatusOr<Calibration>& calibration);

/// The same; null where there is none.
nlohmann::ordered_json ToJson(const absl::StatusOr<Calibration>& calibration);

/// Of an index file, if it has one.
absl::StatusOr<Calibration> ReadCalibration(const std::string& index, const IndexInfo& info);

/// What `hmann info --json` says of the index file `path`.
nlohmann::ordered_json InfoJson(const std::string& path, const IndexInfo& info);

/// What `hmann plan --json` says.
nlohmann::ordered_json ToJson(const PlanReport& report);
/// What `hmann build --plan --json` says.
nlohmann::ordered_json ToJson(const BuildForecast& forecast);

/// What `hmann tune --json` says of a k: `k` `fast` `slow` `cache` `seconds`
/// `learning_queries` `origin` `in_flight` `in_flight_gain` `same_again` `others_busy`
/// `others_steal` `equation`, `choices` (`target`, `met`, and the dials, times and
/// recalls of those that are), `contests` and `front`.
nlohmann::ordered_json ToJson(const TunedForK& tuned);

/// What `hmann build --json` says.
nlohmann::ordered_json ToJson(const CalibratedBuild& built);

}  // namespace hmann
