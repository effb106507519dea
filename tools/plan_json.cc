#include "tools/plan_json.h"

#include <string>

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const BuildEstimate& build) {
  Json json = {{"memory_bytes", build.memory_bytes},
               {"file_bytes", build.file_bytes},
               {"cpu_seconds", build.cpu_seconds},
               {"seconds", build.seconds}};
  if (build.bounded.has_value()) {
    json["bounded"] = {{"least_memory_bytes", build.bounded->least_bytes},
                       {"base_passes", build.bounded->base_passes},
                       {"work_bytes", build.bounded->work_bytes},
                       {"cpu_seconds", build.bounded->cpu_seconds}};
  }
  return json;
}

}  // namespace

Json ToJson(const BuildForecast& forecast) {
  Json json = ToJson(forecast.estimate);
  json["n"] = forecast.shape.n;
  json["promoted"] = forecast.structure.n1;
  json["threads"] = forecast.threads;
  json["measured"] = {{"rows", forecast.measured_rows}, {"seconds", forecast.measured_seconds}};
  return json;
}

Json ToJson(const PlanReport& report) {
  const auto& [request, plan, build] = report;
  Json structures = Json::array();
  for (const PlacedBytes& line : plan.bytes)
    structures.push_back(
        {{"structure", line.structure}, {"tier", line.tier}, {"bytes", line.bytes}});
  const PlanStructure& structure = plan.structure;
  return {{"n", request.shape.n},
          {"dim", request.shape.dim},
          {"dtype", std::string(Name(request.shape.dtype))},
          {"fast_memory_bytes", request.fast_bytes},
          {"promoted", structure.n1},
          {"promote", static_cast<double>(structure.n1) / static_cast<double>(request.shape.n)},
          {"bits", structure.bits},
          {"replicas", structure.replicas},
          {"fast", plan.fast_tier},
          {"slow", plan.l0_tier},
          {"cache_bytes", plan.cache_bytes},
          {"cached_share", plan.cached_share},
          {"migration_bytes", plan.migration_bytes},
          {"structures", structures},
          {"fast_bytes", plan.fast_bytes},
          {"file_bytes", plan.file_bytes},
          {"build", ToJson(build)}};
}

}  // namespace hmann
