#include "eval/scale_results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "eval/growth.h"
#include "eval/scale_structure.h"

namespace hmann {
namespace {

constexpr const char* kFigures[] = {"distances", "estimates", "slow_reads",
                                    "rounds",    "io_reads",  "mean_us"};
constexpr const char* kBuildFigures[] = {"cpu_seconds", "peak_anonymous_bytes"};
constexpr double kNothing = 1e-6;  ///< of a counter that stayed at 0

Json FitJson(const GrowthFit& fit) {
  return {
      {"start", fit.start}, {"slope", fit.slope}, {"residuals", fit.residuals}, {"rms", fit.rms}};
}

Json ExtrapolatedJson(const Extrapolated& at) {
  return {{"value", at.value}, {"error", at.error ? Json(*at.error) : Json()}};
}

/// One figure over the sizes that have it; null of fewer than two.
Json GrowthJson(const std::vector<SizedFigure>& figures, int made_up, std::uint64_t goal_rows) {
  const std::optional<Growth> growth = FitGrowth(figures);
  if (!growth) return nullptr;
  Json points = Json::array();
  for (const SizedFigure& at : figures) points.push_back({at.n, at.value});
  const auto rows = static_cast<double>(goal_rows);
  return {{"points", points},
          {"made_up", made_up},
          {"logarithm", FitJson(growth->logarithm)},
          {"power", FitJson(growth->power)},
          {"extrapolated",
           {{"logarithm", ExtrapolatedJson(ExtrapolateLogarithm(figures, growth->logarithm, rows))},
            {"power", ExtrapolatedJson(ExtrapolatePower(figures, growth->power, rows))}}}};
}

/// What `value` says of the index of each size; null where it has none.
template <typename Value>
Json GrowthOver(const Json& lines, double fast_bytes, std::uint64_t goal_rows, Value value) {
  std::vector<SizedFigure> figures;
  int made_up = 0;
  for (const Json& line : lines) {
    for (const Json& index : line["indexes"]) {
      if (index["fast_bytes"].get<double>() != fast_bytes) continue;
      const Json found = value(index);
      if (!found.is_number() || found.get<double>() <= kNothing) continue;
      figures.push_back({line["n"].get<double>(), found.get<double>()});
      made_up += line["made_up"].get<bool>() ? 1 : 0;
    }
  }
  return GrowthJson(figures, made_up, goal_rows);
}

void AddSearches(const ScaleOptions& options, const Json& lines, double bytes, Json* growth) {
  const RunShape& shape = options.shapes[0];
  for (const std::string& tier : options.tiers) {
    for (const std::string& walk : options.walks) {
      for (const double target : options.targets) {
        for (const char* figure : kFigures) {
          const Json grown = GrowthOver(lines, bytes, options.goal_rows, [&](const Json& index) {
            for (const Json& row : index["rows"]) {
              if (row["tier"] == tier && row["walk"] == walk && row["target"] == target &&
                  row["threads"] == shape.threads && row["in_flight"] == shape.in_flight &&
                  row["at_recall"] == row["target"])
                return row[figure];
            }
            return Json();
          });
          if (grown.is_null()) continue;
          growth->push_back({{"fast_bytes", bytes},
                             {"tier", tier},
                             {"walk", walk},
                             {"target", target},
                             {"figure", figure}});
          growth->back().update(grown);
        }
      }
    }
  }
}

void AddBuilds(const ScaleOptions& options, const Json& lines, double bytes, Json* growth) {
  for (const char* figure : kBuildFigures) {
    const Json grown = GrowthOver(lines, bytes, options.goal_rows, [&](const Json& index) {
      return index["build"]["from"] == "vectors" ? index["build"][figure] : Json();
    });
    if (grown.is_null()) continue;
    growth->push_back({{"fast_bytes", bytes},
                       {"tier", nullptr},
                       {"walk", nullptr},
                       {"target", nullptr},
                       {"figure", figure}});
    growth->back().update(grown);
  }
}

Json GoalJson(const ScaleOptions& options, const Json& head) {
  BuildOptions build;
  build.metric = options.job.metric;
  build.m = options.job.m;
  build.ef_construction = options.job.ef_construction;
  const absl::StatusOr<DType> dtype = ParseDType(head["base"]["dtype"].get<std::string>());
  Json goal = {{"rows", options.goal_rows},
               {"fast_memory_bytes", options.goal_fast_memory},
               {"structure", nullptr},
               {"levels", Json::array()}};
  const double there =
      static_cast<double>(options.goal_fast_memory) / static_cast<double>(options.goal_rows);
  if (dtype.ok()) {
    const PlanShape shape =
        ShapeOf(build, options.goal_rows, head["base"]["dim"].get<std::uint32_t>(), *dtype);
    if (const absl::StatusOr<PlacementPlan> plan = PlanForBytes(shape, "nvme", there); plan.ok())
      goal["structure"] = DescribeStructure(shape, plan->structure);
  }
  for (const double bytes : options.fast_bytes)
    goal["levels"].push_back({{"fast_bytes", bytes}, {"fits", bytes <= there}});
  return goal;
}

}  // namespace

Json ScaleFigures(const ScaleOptions& options, const Json& head, const Json& lines) {
  Json growth = Json::array();
  for (const double bytes : options.fast_bytes) {
    AddSearches(options, lines, bytes, &growth);
    AddBuilds(options, lines, bytes, &growth);
  }
  const std::string& base = options.job.base;
  return {{"title", absl::StrCat("Growth over sizes: ", base.substr(base.rfind('/') + 1))},
          {"head", head},
          {"base", base},
          {"queries", options.job.queries},
          {"targets", options.targets},
          {"sizes", lines},
          {"growth", growth},
          {"goal", GoalJson(options, head)}};
}

}  // namespace hmann
