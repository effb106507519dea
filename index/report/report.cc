#include "index/report/report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "hmann/calibration.h"
#include "hmann/param_table.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/params/params_json.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

/// Where this way of searching is the default.
std::string Where(const Calibration::Curve& curve) {
  if (curve.way.mode == SearchMode::kUpper) return "no L0";
  if (curve.way.mode == SearchMode::kScan) return "all";
  if (curve.way.scalar_bits > 0) return absl::StrCat("memory, sq", curve.way.scalar_bits);
  if (curve.way.mode == SearchMode::kGraph) return "memory";
  return curve.way.cells ? "device" : "far memory";
}

Calibration::Found Expected(const Calibration& calibration, const Calibration::Curve& curve) {
  return *calibration.Find(curve.way, curve.k, kDefaultRecall);
}

Json ToJson(const BuildEstimate& build) {
  Json json = {{"memory_bytes", build.memory_bytes}, {"file_bytes", build.file_bytes}};
  if (build.bounded.has_value()) {
    json["bounded"] = {{"least_memory_bytes", build.bounded->least_bytes},
                       {"base_passes", build.bounded->base_passes},
                       {"work_bytes", build.bounded->work_bytes}};
  }
  return json;
}

Json ToJson(const Target& target) {
  Json json;
  if (target.recall > 0) json["recall"] = target.recall;
  if (target.latency_us > 0) json["latency_us"] = target.latency_us;
  return json;
}

Json ToJson(const TunedSetting& setting) {
  Json json = hmann::ToJson(setting.params);
  json["mean_us"] = RoundToDecimals(setting.mean_us, 2);
  json["p95_us"] = RoundToDecimals(setting.p95_us, 2);
  json["recall"] = RoundToDecimals(setting.recall, 5);
  json["recall_low"] = RoundToDecimals(setting.recall_low, 5);
  return json;
}

Json ToJson(const Comparison& comparison) {
  return {{"recall", comparison.recall},
          {"settings", comparison.settings},
          {"unable", comparison.unable},
          {"dropped", comparison.dropped},
          {"upper_dropped", comparison.upper_dropped},
          {"neighbors", comparison.neighbors},
          {"equation_error", RoundToDecimals(comparison.equation_error, 4)}};
}

}  // namespace

nlohmann::ordered_json ToJson(const IndexInfo& info) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerInfo& layer : info.layers) {
    layers.push_back({{"nodes", layer.nodes},
                      {"max_degree", layer.max_degree},
                      {"mean_degree", layer.mean_degree}});
  }
  nlohmann::ordered_json bytes = nlohmann::ordered_json::object();
  for (const StructureBytes& structure : info.bytes) {
    nlohmann::ordered_json line = {
        {"tier", structure.tier}, {"bytes", structure.bytes}, {"formula", nullptr}};
    if (structure.formula != 0) line["formula"] = structure.formula;
    bytes[structure.name] = line;
  }
  return {{"n", info.n},
          {"dim", info.dim},
          {"dtype", std::string(Name(info.dtype))},
          {"metric", std::string(Name(info.metric))},
          {"m", info.m},
          {"ef_construction", info.ef_construction},
          {"alpha", RoundToDecimals(info.alpha, 6)},
          {"layers", layers},
          {"promote", info.promote},
          {"bytes", bytes},
          {"content_hash", absl::StrFormat("%016x", info.content_hash)},
          {"seed", info.seed},
          {"version", info.version},
          {"file_bytes", info.file_bytes},
          {"user_labels", info.user_labels}};
}

nlohmann::ordered_json ToJson(const std::vector<Placement>& placements) {
  auto rows = nlohmann::ordered_json::array();
  for (const Placement& p : placements)
    rows.push_back(
        {{"structure", p.structure}, {"tier", p.tier}, {"bytes", p.bytes}, {"where", p.where}});
  return rows;
}

nlohmann::ordered_json ToJson(const BuildReport& report) {
  nlohmann::ordered_json seconds, cpu_seconds, serial, anonymous;
  for (const PhaseTime& phase : report.phases) {
    seconds[phase.name] = phase.seconds;
    cpu_seconds[phase.name] = phase.cpu_seconds;
    serial[phase.name] = phase.serial_seconds;
    if (phase.anonymous_bytes > 0) anonymous[phase.name] = phase.anonymous_bytes;
  }
  nlohmann::ordered_json json = {
      {"seconds", seconds},
      {"cpu_seconds", cpu_seconds},
      {"serial_cpu_seconds", serial},
      {"peak_rss_bytes", report.peak_rss_bytes},
      {"peak_anonymous_bytes", report.peak_anonymous_bytes},
      {"anonymous_bytes", anonymous},
      {"work_bytes", report.work_bytes},
      {"threads", report.threads},
      {"reachable_share", report.reachable_share},
      {"repaired_nodes", report.repaired_nodes},
      {"promoted_by", report.promoted_by_norm ? "norm" : "degree"},
      {"duplicates", report.duplicates},
      {"self_recall_at_1", report.self_recall_at_1},
      {"self_recall_sample", report.self_recall_sample},
      {"degree_mean", report.degree_mean},
      {"degree_p99", report.degree_p99},
      {"degree_max", report.degree_max},
      {"notes", report.notes},
  };
  json.update(ToJson(report.info));
  return json;
}

std::string Describe(const absl::StatusOr<Calibration>& calibration) {
  if (absl::IsNotFound(calibration.status())) return "";
  if (!calibration.ok()) {
    return absl::StrCat(
        "  not calibrated, default parameters are a guess: ", calibration.status().message(), "\n");
  }
  std::string lines = absl::StrFormat(
      "  default parameters, by queries %s: recall@k expected%s\n", calibration->origin,
      calibration->origin == kLeftOutInTurn ? " (how much easier others are to find: of a sample)"
                                            : "");
  for (const Calibration::Curve& curve : calibration->curves) {
    const Calibration::Found found = Expected(*calibration, curve);
    absl::StrAppendFormat(&lines, "    %-11s %-10s k %-5d %.3f  ef_scale %.2f  (%d queries)\n",
                          Where(curve), std::string(Name(curve.way.mode)), curve.k, found.recall,
                          double{found.ef_scale}, curve.queries);
  }
  return lines;
}

nlohmann::ordered_json ToJson(const absl::StatusOr<Calibration>& calibration) {
  if (!calibration.ok()) return nullptr;
  nlohmann::ordered_json expected = nlohmann::ordered_json::array();
  for (const Calibration::Curve& curve : calibration->curves) {
    const Calibration::Found found = Expected(*calibration, curve);
    expected.push_back({{"where", Where(curve)},
                        {"mode", std::string(Name(curve.way.mode))},
                        {"k", curve.k},
                        {"queries", curve.queries},
                        {"recall", found.recall},
                        {"ef_scale", found.ef_scale}});
  }
  return {{"origin", calibration->origin}, {"expected", std::move(expected)}};
}

absl::StatusOr<Calibration> ReadCalibration(const std::string& index, const IndexInfo& info) {
  HMANN_ASSIGN_OR_RETURN(const TunedTable table, ReadTunedTable(index, info.content_hash, info.n));
  if (table.calibration.has_value()) return *table.calibration;
  return NotFound(index, ": not calibrated");
}

nlohmann::ordered_json ToJson(const CollectionInfo& info) {
  return {{"live", info.live},
          {"sealed_rows", info.sealed_rows},
          {"sealed_dead", info.sealed_dead},
          {"delta_rows", info.delta_rows},
          {"loose_rows", info.loose_rows},
          {"delta_bytes", info.delta_bytes},
          {"journal_bytes", info.journal_bytes},
          {"sequence", info.sequence},
          {"covered", info.covered},
          {"merges", info.merges},
          {"last_error", info.last_error},
          {"sealed_file", info.sealed_file},
          {"dtype", Name(info.dtype)},
          {"dim", info.dim},
          {"metric", Name(info.metric)},
          {"id", info.id}};
}

nlohmann::ordered_json InfoJson(const std::string& path, const IndexInfo& info) {
  nlohmann::ordered_json json = ToJson(info);
  json["calibration"] = ToJson(ReadCalibration(path, info));
  return json;
}

Json ToJson(const BuildForecast& forecast) {
  Json json = ToJson(forecast.estimate);
  json["n"] = forecast.shape.n;
  json["promoted"] = forecast.structure.n1;
  json["threads"] = forecast.threads;
  json["seconds"] = forecast.seconds;
  json["cpu_seconds"] = forecast.cpu_seconds;
  json["read_seconds"] = forecast.read_seconds;
  json["measured"] = {{"rows", forecast.measured_rows},
                      {"seconds", forecast.measured_seconds},
                      {"growth", forecast.growth},
                      {"read_bytes_per_second", forecast.read_bytes_per_second}};
  return json;
}

Json ToJson(const PlanReport& report) {
  const auto& [request, plan, build, build_memory] = report;
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
          {"read_buffer_bytes", plan.read_buffer_bytes},
          {"structures", structures},
          {"fast_bytes", plan.fast_bytes},
          {"file_bytes", plan.file_bytes},
          {"explain", plan.rule},
          {"build", ToJson(build)},
          {"build_memory_bytes", build_memory}};
}

Json ToJson(const TunedForK& tuned) {
  const TunedEntry& entry = tuned.entry;
  Json json = {{"k", entry.k},
               {"fast", entry.placement.fast},
               {"slow", entry.placement.slow},
               {"cache", entry.placement.cache},
               {"seconds", RoundToDecimals(tuned.seconds, 2)},
               {"of_shards", entry.of_shards},
               {"learning_queries", entry.queries},
               {"origin", entry.origin},
               {"in_flight", entry.in_flight},
               {"in_flight_gain", RoundToDecimals(entry.in_flight_gain, 3)},
               {"same_again", RoundToDecimals(tuned.same_again, 4)},
               {"others_busy", RoundToDecimals(tuned.others.busy, 4)},
               {"others_steal", RoundToDecimals(tuned.others.steal, 4)},
               {"equation",
                {{"fast_ns", RoundToDecimals(tuned.equation.fast_ns, 2)},
                 {"slow_ns", RoundToDecimals(tuned.equation.slow_ns, 2)},
                 {"gathered_ns", RoundToDecimals(tuned.equation.gathered_ns, 2)},
                 {"by_cell_ns", RoundToDecimals(tuned.equation.by_cell_ns, 2)}}}};
  json["choices"] = Json::array();
  for (const TunedChoice& choice : tuned.choices) {
    Json one = {{"target", ToJson(choice.target)}, {"met", choice.setting.ok()}};
    if (choice.setting.ok()) one.update(ToJson(*choice.setting));
    json["choices"].push_back(std::move(one));
  }
  for (const char* list : {"comparisons", "front"}) json[list] = Json::array();
  for (const Comparison& comparison : tuned.comparisons)
    json["comparisons"].push_back(ToJson(comparison));
  for (const TunedSetting& setting : entry.settings) json["front"].push_back(ToJson(setting));
  return json;
}

nlohmann::ordered_json ToJson(const CalibratedBuild& built) {
  nlohmann::ordered_json json = ToJson(built.report);
  json["calibration"] = ToJson(built.calibration);
  return json;
}

}  // namespace hmann
