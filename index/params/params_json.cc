#include "index/params/params_json.h"

namespace hmann {

using Json = nlohmann::ordered_json;

Json ToJson(const ResolvedParams& params) {
  Json json = Json::object();
  for (const ParamInfo& param : ParamTable()) {
    const std::optional<double> value = Running(param, params);
    if (!value.has_value()) continue;
    Json& place = json[std::string(param.name)];
    if (!param.words.empty()) {
      place = param.Text(*value);
    } else if (param.whole) {
      place = static_cast<std::uint64_t>(*value);
    } else {
      place = *value;
    }
  }
  return json;
}

Json ToJson(const Counters& counters, double queries) {
  Json json = Json::object();
  for (const CounterName& counter : CounterNames()) {
    json[std::string(counter.name)] = static_cast<double>(counters.*counter.value) / queries;
  }
  return json;
}

}  // namespace hmann
