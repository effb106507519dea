#include "tools/tune_json.h"

#include <string>
#include <vector>

#include "index/base/statistics.h"
#include "index/dials/dials_json.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Target& target) {
  Json json;
  if (target.recall > 0) json["recall"] = target.recall;
  if (target.latency_us > 0) json["latency_us"] = target.latency_us;
  return json;
}

Json ToJson(const TunedSetting& setting) {
  Json json = hmann::ToJson(setting.dials);
  json["mean_us"] = RoundToDecimals(setting.mean_us, 2);
  json["p95_us"] = RoundToDecimals(setting.p95_us, 2);
  json["recall"] = RoundToDecimals(setting.recall, 5);
  json["recall_low"] = RoundToDecimals(setting.recall_low, 5);
  return json;
}

Json ToJson(const Contest& contest) {
  return {{"recall", contest.recall},
          {"settings", contest.settings},
          {"unable", contest.unable},
          {"dropped", contest.dropped},
          {"upper_dropped", contest.upper_dropped},
          {"neighbours", contest.neighbours},
          {"equation_error", RoundToDecimals(contest.equation_error, 4)}};
}

}  // namespace

Json ToJson(const TunedForK& tuned) {
  const TunedEntry& entry = tuned.entry;
  Json json = {{"k", entry.k},
               {"fast", entry.placement.fast},
               {"slow", entry.placement.slow},
               {"cache", entry.placement.cache},
               {"seconds", RoundToDecimals(tuned.seconds, 2)},
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
  for (const char* list : {"contests", "front"}) json[list] = Json::array();
  for (const Contest& contest : tuned.contests) json["contests"].push_back(ToJson(contest));
  for (const TunedSetting& setting : entry.settings) json["front"].push_back(ToJson(setting));
  return json;
}

}  // namespace hmann
