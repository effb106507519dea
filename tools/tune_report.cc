#include "tools/tune_report.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "eval/environment.h"
#include "eval/results.h"
#include "index/base/progress.h"
#include "index/base/status_macros.h"
#include "index/plan_index.h"
#include "index/tune/tuned_table.h"
#include "tools/plan_choice.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<PlacementPlan>& plan) { return plan.has_value() ? Json(plan->predicted_us) : Json(nullptr); }

/// Where the planner can tell nothing of a tier: L0 in DRAM leaves no choice, and a tier may be missing in the device file.
std::string TierToPlan(const std::string& slow, const DeviceProfile& profile) {
  const bool known = profile.Memory(slow) != nullptr || profile.Block(TierWithoutPath(slow)) != nullptr;
  return slow == "dram" || !known ? "nvme" : TierWithoutPath(slow);
}

/// The knee: predicted time from a fiftieth of the file's bytes in fast memory to more than all of them.
absl::StatusOr<Json> Knee(const TuneOptions& options, const std::string& slow) {
  PlanRequest request;
  HMANN_ASSIGN_OR_RETURN(request.profile, ProfileToPlanWith(options.profile));
  request.slow = TierToPlan(slow, request.profile);
  HMANN_ASSIGN_OR_RETURN(const IndexToPlan index, DescribeIndex(options.index));
  request.shape = index.shape;
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(request.scale, SampleCounts(options.index, options.queries, request.slow.starts_with("nvme"), progress));
  PlanRequest as_is = request;
  as_is.finished = index.structure;
  Json lines = Json::array();
  constexpr double kStep = 1.3;
  for (double share = 0.02; share < 1.6; share *= kStep) {
    const auto bytes = static_cast<std::uint64_t>(share * static_cast<double>(index.file_bytes));
    const PlanBesideRules beside = CompareWithRules(request, bytes, 0);
    as_is.fast_bytes = bytes;
    const absl::StatusOr<PlacementPlan> same = PlanPlacement(as_is);
    const Json text = beside.plan.has_value() ? Json(DescribeStructure(request.shape, beside.plan->structure)) : Json(nullptr);
    lines.push_back({{"fast_memory_bytes", bytes},
                     {"plan_us", OrNull(beside.plan)},
                     {"plan", text},
                     {"as_is_us", same.ok() ? Json(same->predicted_us) : Json(nullptr)},
                     {"upper_layers_first_us", OrNull(beside.layers)},
                     {"first_touch_us", OrNull(beside.touch)}});
  }
  return Json{{"for", TierWithoutPath(slow)},
              {"slow", request.slow},
              {"profile", options.profile.empty() ? "a usual machine (no device file was given)" : options.profile},
              {"lines", lines}};
}

}  // namespace

absl::Status WriteTuningReport(const TuneOptions& options, const std::vector<std::string>& slow, const Json& tuned,
                               const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(options.index));
  Json page = {{"title", absl::StrCat("Tuned: ", std::filesystem::path(options.index).filename().string())}};
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
    const absl::StatusOr<Json> knee = Knee(options, tier);
    if (knee.ok()) {
      page["knees"].push_back(*knee);
    } else {
      std::cerr << "the page has no curve over fast memory: " << knee.status().message() << '\n';
    }
  }
  return WriteReport(page, path, TuningTemplate());
}

}  // namespace hmann
