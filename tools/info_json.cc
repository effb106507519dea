#include "tools/info_json.h"

#include <string>

#include "absl/strings/str_format.h"
#include "index/base/statistics.h"

namespace hmann {

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
  nlohmann::ordered_json seconds, cpu_seconds, anonymous;
  for (const PhaseTime& phase : report.phases) {
    seconds[phase.name] = phase.seconds;
    cpu_seconds[phase.name] = phase.cpu_seconds;
    if (phase.anonymous_bytes > 0) anonymous[phase.name] = phase.anonymous_bytes;
  }
  nlohmann::ordered_json json = {
      {"seconds", seconds},
      {"cpu_seconds", cpu_seconds},
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
  };
  json.update(ToJson(report.info));
  return json;
}

}  // namespace hmann
