#include "index/dials/dials_json.h"

namespace hmann {

using Json = nlohmann::ordered_json;

Json ToJson(const Dials& dials) {
  Json json = Json::object();
  for (const Dial& dial : DialTable()) {
    const std::optional<double> value = Running(dial, dials);
    if (!value.has_value()) continue;
    Json& place = json[std::string(dial.name)];
    if (!dial.words.empty()) {
      place = dial.Text(*value);
    } else if (dial.whole) {
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
