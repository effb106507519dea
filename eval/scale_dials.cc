#include "eval/scale_dials.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace hmann {
namespace {

Json Setting(const char* walk, int ef_l1, int ef_l0) {
  return {{"walk", walk}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}};
}

void Add(Json* settings, const char* walk, int ef_l1, int ef_l0, const Json& more) {
  settings->push_back(Setting(walk, ef_l1, ef_l0));
  settings->back().update(more);
}

/// Each round trip to a device costs more than what is computed: wide rounds.
void AddOnDevice(std::string_view walk, Json* settings) {
  if (walk == "best-first") {
    for (const auto& [ef_l1, ef_l0] : {std::pair(8, 10),
                                       {16, 16},
                                       {32, 24},
                                       {48, 36},
                                       {64, 56},
                                       {64, 90},
                                       {96, 140},
                                       {128, 220},
                                       {192, 360}})
      settings->push_back(Setting("best-first", ef_l1, ef_l0));
    return;
  }
  for (const auto& [ef_l1, nprobe] : {std::pair(32, 64), {64, 128}, {128, 256}, {256, 512}}) {
    for (const auto& [ef_l0, stop] :
         {std::pair(12, 1.0), {20, 1.0}, {30, 1.0}, {60, 1.5}, {120, 2.0}, {250, 3.0}}) {
      Add(settings, "quantised", ef_l1, ef_l0,
          {{"nprobe", nprobe}, {"beam_width", 16}, {"error_bound", stop}});
    }
  }
}

void AddInMemory(std::string_view walk, bool multiples, Json* settings) {
  if (!multiples) {
    for (const int width : {10, 16, 24, 36, 56, 80, 120, 180, 270, 400})
      settings->push_back(walk == "best-first" ? Setting("best-first", 1, width)
                                               : Setting("quantised", 16, width));
    return;
  }
  // Of small sets or good codes, any reach finds nearly all: widths end sooner.
  for (const int width : {10, 14, 20, 30}) {
    settings->push_back(walk == "best-first" ? Setting("best-first", 1, width)
                                             : Setting("quantised", 2, width));
    if (walk == "quantised") settings->back()["nprobe"] = 0;
  }
  for (const double epsilon :
       {0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.27, 0.33, 0.4, 0.6}) {
    if (walk == "best-first") {
      for (const int width : {1, 3})
        Add(settings, "best-first", 1, 400, {{"beam_width", width}, {"epsilon", epsilon}});
    } else {
      Add(settings, "quantised", 16, 400, {{"nprobe", 0}, {"epsilon", epsilon}});
      Add(settings, "quantised", 2, 60, {{"nprobe", 0}, {"epsilon", epsilon}});
    }
  }
}

}  // namespace

Json DialGrid(const std::string& walk, bool block_tier, bool cells, Metric metric) {
  Json settings = Json::array();
  if (walk == "multi-start") {
    for (const int ef_l1 : {6, 10, 16, 24, 36, 56, 80, 120, 180, 270, 400})
      settings.push_back(Setting("multi-start", ef_l1, 1));
    return settings;
  }
  if (walk == "quantised" && !cells) return settings;
  if (block_tier)
    AddOnDevice(walk, &settings);
  else
    AddInMemory(walk, metric != Metric::kInnerProduct, &settings);
  return settings;
}

ContestantRuns ByCost(const ContestantRuns& runs, bool block_tier, const Reading& reading) {
  // Guesses of a usual machine: settings are chosen by them, no figure is made of them.
  constexpr double kReadsOfARound = 5, kLineUs = 0.01, kRoundUs = 0.45;
  ContestantRuns costed = runs;
  for (SettingRuns& setting : costed.settings) {
    std::vector<double>& qps = setting.observed["qps"];
    qps.clear();
    for (const double seconds : setting.seconds)
      qps.push_back(static_cast<double>(reading.queries) / seconds);
    Json& counters = setting.counters;
    if (!counters.is_object() || !counters.contains("lines")) continue;
    const double rounds = counters.value("rounds", 0.0);
    counters["cost"] = block_tier ? counters.value("io_reads", 0.0) + kReadsOfARound * rounds
                                  : kLineUs * counters["lines"].get<double>() + kRoundUs * rounds;
  }
  return ByCounter(costed, "cost", reading);
}

Json SettingsAround(const ContestantRuns& learned, const Reading& reading) {
  const std::vector<ContestantFigures> figures = Read({learned}, reading);
  std::vector<const PointFigures*> front;
  for (const PointFigures& point : figures[0].points) {
    if (point.front) front.push_back(&point);
  }
  std::sort(front.begin(), front.end(),
            [](const PointFigures* a, const PointFigures* b) { return a->recall < b->recall; });
  std::set<std::size_t> chosen;
  for (const double target : reading.targets) {
    const auto at = std::find_if(front.begin(), front.end(), [&](const PointFigures* point) {
      return point->recall >= target;
    });
    const auto middle = static_cast<std::size_t>(at - front.begin());
    for (std::size_t i = middle - std::min<std::size_t>(middle, 2);
         i < std::min(middle + 2, front.size()); ++i)
      chosen.insert(i);
  }
  Json settings = Json::array();
  for (const std::size_t i : chosen) settings.push_back(front[i]->setting);
  return settings;
}

}  // namespace hmann
