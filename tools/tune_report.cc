#include "tools/tune_report.h"

#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "eval/report/environment.h"
#include "eval/report/pages.h"
#include "index/base/progress.h"
#include "index/base/status_macros.h"
#include "index/format/tuned_table.h"
#include "index/tune/plan_report.h"
#include "tools/plan_choice.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<PlacementPlan>& plan) {
  return plan.has_value() ? Json(plan->predicted_us) : Json(nullptr);
}

absl::StatusOr<Json> CurveJson(const TuneOptions& options, const std::string& slow) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(
      const FastMemoryCurve curve,
      PlanOverFastMemory(options.index, options.queries, options.profile, slow, progress));
  Warn(curve.warnings);
  Json lines = Json::array();
  for (const FastMemoryPoint& point : curve.points) {
    lines.push_back({{"fast_memory_bytes", point.fast_bytes},
                     {"plan_us", OrNull(point.plan)},
                     {"plan", point.plan.has_value()
                                  ? Json(DescribeStructure(curve.shape, point.plan->structure))
                                  : Json(nullptr)},
                     {"as_is_us", OrNull(point.as_is)},
                     {"upper_layers_first_us", OrNull(point.layers)},
                     {"first_touch_us", OrNull(point.touch)}});
  }
  return Json{{"for", TierWithoutPath(slow)},
              {"slow", curve.slow},
              {"profile", options.profile.empty() ? "a usual machine (no device file was given)"
                                                  : options.profile},
              {"lines", lines}};
}

}  // namespace

absl::Status WriteTuningReport(const TuneOptions& options, const std::vector<std::string>& slow,
                               const Json& tuned, const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(options.index));
  Json page = {
      {"title", absl::StrCat("Tuned: ", std::filesystem::path(options.index).filename().string())}};
  page.update(tuned);
  page["index"] = {{"path", options.index},
                   {"n", info.n},
                   {"dim", info.dim},
                   {"dtype", std::string(Name(info.dtype))},
                   {"metric", std::string(Name(info.metric))},
                   {"file_bytes", info.file_bytes}};
  page["environment"] = DescribeEnvironment();
  page["knees"] = Json::array();
  for (const std::string& tier : slow) {
    const absl::StatusOr<Json> curve = CurveJson(options, tier);
    if (curve.ok()) {
      page["knees"].push_back(*curve);
    } else {
      std::cerr << "the page has no curve over fast memory: " << curve.status().message() << '\n';
    }
  }
  return WriteReport(page, TuningPage(), path);
}

}  // namespace hmann
