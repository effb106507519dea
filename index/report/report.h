#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/build.h"
#include "hmann/collection.h"
#include "hmann/info.h"
#include "hmann/tune.h"
#include "index/tune/forecast.h"
#include "index/tune/plan_report.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// The output of `info --json`, under the public names. `bytes` has an object per
/// structure; a structure without a formula has `formula` null. The hash is a string of
/// 16 hex digits, because a JSON number would lose bits.
nlohmann::ordered_json ToJson(const IndexInfo& info);

/// Placements of an open index.
nlohmann::ordered_json ToJson(const std::vector<Placement>& placements);

/// The output of `build --json`.
nlohmann::ordered_json ToJson(const BuildReport& report);

/// Human-readable lines that say what the default parameters are expected to give; or the
/// error, if a calibration was wanted and failed.
std::string Describe(const absl::StatusOr<Calibration>& calibration);

/// The same as JSON; null where there is none.
nlohmann::ordered_json ToJson(const absl::StatusOr<Calibration>& calibration);

/// The calibration of an index file, if it has one.
absl::StatusOr<Calibration> ReadCalibration(const std::string& index, const IndexInfo& info);

/// The output of `hmann info --json` for the index file `path`.
nlohmann::ordered_json InfoJson(const std::string& path, const IndexInfo& info);

/// The output of `hmann info --json` for a collection.
nlohmann::ordered_json ToJson(const CollectionInfo& info);

/// The output of `hmann plan --json`.
nlohmann::ordered_json ToJson(const PlanReport& report);
/// The output of `hmann build --plan --json`.
nlohmann::ordered_json ToJson(const BuildForecast& forecast);

/// The output of `hmann tune --json` for one k: `k` `fast` `slow` `cache` `seconds`
/// `learning_queries` `origin` `in_flight` `in_flight_gain` `same_again` `others_busy`
/// `others_steal` `equation`, `choices` (`target`, `met`, and for met ones the
/// parameters, times and recalls), `comparisons` and `front`.
nlohmann::ordered_json ToJson(const TunedForK& tuned);

/// The output of `hmann build --json`.
nlohmann::ordered_json ToJson(const CalibratedBuild& built);

}  // namespace hmann
