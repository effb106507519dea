#pragma once

#include "index/tune/forecast.h"
#include "index/tune/plan_report.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What `hmann plan --json` says.
nlohmann::ordered_json ToJson(const PlanReport& report);
/// What `hmann build --plan --json` says.
nlohmann::ordered_json ToJson(const BuildForecast& forecast);

}  // namespace hmann
