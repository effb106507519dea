#include "tools/tune_json.h"

#include <algorithm>
#include <string>
#include <vector>

#include "index/base/statistics.h"
#include "index/dials/dials_json.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

const char* Name(Fate fate) {
  constexpr const char* kNames[] = {"dropped", "seed", "kept", "finalist"};
  return kNames[static_cast<std::size_t>(fate)];
}

Json ToJson(const Target& target) {
  Json json;
  if (target.recall > 0) json["recall"] = target.recall;
  if (target.latency_us > 0) json["latency_us"] = target.latency_us;
  return json;
}

Json ToJson(const TriedSetting& tried) {
  Json json = hmann::ToJson(tried.dials);
  json["fate"] = Name(tried.fate);
  json["predicted_us"] = RoundToDecimals(tried.predicted.mean_us, 2);
  json["predicted_recall"] = RoundToDecimals(tried.predicted.recall, 5);
  if (tried.measured.queries == 0) return json;
  json["mean_us"] = RoundToDecimals(tried.measured.mean_us, 2);
  json["recall"] = RoundToDecimals(tried.measured.recall, 5);
  if (tried.fate == Fate::kFinalist) json["recall_low"] = RoundToDecimals(tried.recall_low, 5);
  return json;
}

Json ToJson(const ModelError& error) {
  return {{"median", RoundToDecimals(error.median, 4)},
          {"p95", RoundToDecimals(error.p95, 4)},
          {"worst", RoundToDecimals(error.worst, 4)}};
}

Json ToJson(const TuningCheck& check, const Tuned& tuned) {
  Json json = {{"held_out", check.held_out},
               {"model_error", ToJson(check.work_model)},
               {"drift", RoundToDecimals(check.drift, 4)},
               {"model_error_less_drift", ToJson(check.work_model_less_drift)},
               {"paper_model_error", ToJson(check.paper_model)},
               {"same_again", ToJson(check.same_again)},
               {"pruned", RoundToDecimals(check.pruned, 4)}};
  if (check.held_out > 0) {
    json["worst"] = hmann::ToJson(tuned.settings[check.worst].dials);
    json["worst"].update(
        {{"predicted_us", RoundToDecimals(tuned.settings[check.worst].predicted.mean_us, 2)},
         {"lowest_round_us", RoundToDecimals(check.worst_low_us, 2)},
         {"highest_round_us", RoundToDecimals(check.worst_high_us, 2)}});
  }
  json["choices"] = Json::array();
  for (const ChoiceCheck& choice : check.choices) {
    Json one = {{"target", ToJson(choice.choice.target)},
                {"chosen", hmann::ToJson(tuned.settings[choice.choice.setting].dials)},
                {"test_recall", RoundToDecimals(choice.test_recall, 5)},
                {"test_mean_us", RoundToDecimals(choice.test_mean_us, 2)}};
    if (choice.best_exists) {
      one["best"] = hmann::ToJson(tuned.settings[choice.best].dials);
      one["best_recall"] = RoundToDecimals(choice.best_recall, 5);
      one["best_mean_us"] = RoundToDecimals(choice.best_mean_us, 2);
      one["best_was_run"] = choice.best_was_run;
      one["regret"] = RoundToDecimals(choice.regret, 4);
    }
    json["choices"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

Json TuningJson(const TuningRun::ForK& of_k, const TunedEntry& entry, bool settings) {
  const Tuned& tuned = of_k.tuned;
  std::size_t run = 0;
  for (const TriedSetting& tried : tuned.settings) run += tried.measured.queries > 0 ? 1 : 0;
  Json json = {{"k", of_k.k},
               {"fast", entry.placement.fast},
               {"slow", entry.placement.slow},
               {"cache", entry.placement.cache},
               {"seconds", RoundToDecimals(of_k.seconds, 2)},
               {"learning_queries", entry.queries},
               {"origin", entry.origin},
               {"grid", tuned.settings.size()},
               {"run", run},
               {"in_flight", entry.in_flight},
               {"in_flight_gain", RoundToDecimals(entry.in_flight_gain, 3)}};
  json["choices"] = Json::array();
  for (const Choice& choice : tuned.choices) {
    Json one = {{"target", ToJson(choice.target)}, {"met", choice.met}};
    one.update(ToJson(tuned.settings[choice.setting]));
    json["choices"].push_back(std::move(one));
  }
  json["front"] = Json::array();
  for (const std::size_t i : tuned.front) json["front"].push_back(ToJson(tuned.settings[i]));
  if (settings) {
    json["settings"] = Json::array();
    for (std::size_t i = 0; i < tuned.settings.size(); ++i) {
      Json one = ToJson(tuned.settings[i]);
      one["paper_us"] = RoundToDecimals(tuned.paper.PredictUs(tuned.settings[i].dials), 2);
      if (of_k.check.has_value()) {
        one["test_mean_us"] = RoundToDecimals(of_k.check->measured[i].mean_us, 2);
        one["test_recall"] = RoundToDecimals(of_k.check->measured[i].recall, 5);
      }
      one["front"] = std::find(tuned.front.begin(), tuned.front.end(), i) != tuned.front.end();
      one["chosen"] = Json::array();
      for (const Choice& choice : tuned.choices) {
        if (choice.setting == i) one["chosen"].push_back(ToJson(choice.target));
      }
      json["settings"].push_back(std::move(one));
    }
  }
  if (of_k.check.has_value()) json["check"] = ToJson(*of_k.check, tuned);
  return json;
}

}  // namespace hmann
