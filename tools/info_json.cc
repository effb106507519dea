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

}  // namespace hmann
