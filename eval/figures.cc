#include "eval/figures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "eval/statistics.h"
#include "index/base/statistics.h"

namespace hmann {
namespace {

double Seconds(const SettingRuns& runs, std::size_t round, RunClock clock) {
  return clock == RunClock::kCpu ? runs.cpu_seconds[round] : runs.seconds[round];
}

std::vector<double> Qps(const SettingRuns& runs, const Reading& reading) {
  std::vector<double> qps;
  qps.reserve(runs.seconds.size());
  for (std::size_t r = 0; r < runs.seconds.size(); ++r)
    qps.push_back(static_cast<double>(reading.queries) / Seconds(runs, r, reading.clock));
  return qps;
}

double Resolution(const Reading& reading) {
  return 1.0 / (static_cast<double>(reading.queries) * reading.k);
}

/// Indices of the points on the front, recall ascending.
std::vector<std::size_t> Front(const std::vector<PointFigures>& points) {
  std::vector<OperatingPoint> operating;
  operating.reserve(points.size());
  for (const PointFigures& point : points) operating.push_back({point.recall, point.qps});
  return ParetoFront(operating);
}

std::vector<PointFigures> Points(const ContestantRuns& runs, const Reading& reading) {
  std::vector<PointFigures> points;
  for (const SettingRuns& setting : runs.settings) {
    const std::vector<double> qps = Qps(setting, reading);
    points.push_back({setting.setting,
                      setting.counters,
                      Median(setting.recall),
                      Median(qps),
                      Mad(qps),
                      false,
                      {}});
    for (const auto& [name, values] : setting.observed)
      points.back().observed[name] = Median(values);
  }
  for (const std::size_t i : Front(points)) points[i].front = true;
  return points;
}

/// Per round, QPS at the target; empty if the front does not reach it.
struct RoundsAtTarget {
  std::vector<double> qps;
  double at_recall = 0;
};

RoundsAtTarget ReadRounds(const ContestantRuns& runs, const std::vector<PointFigures>& points,
                          double target, const Reading& reading) {
  const std::vector<std::size_t> front = Front(points);
  RoundsAtTarget result;
  std::vector<double> recalls(front.size()), values(front.size());
  for (std::size_t i = 0; i < front.size(); ++i) recalls[i] = points[front[i]].recall;
  const std::size_t rounds = runs.settings.empty() ? 0 : runs.settings[0].seconds.size();
  for (std::size_t r = 0; r < rounds; ++r) {
    for (std::size_t i = 0; i < front.size(); ++i) {
      values[i] =
          static_cast<double>(reading.queries) / Seconds(runs.settings[front[i]], r, reading.clock);
    }
    const std::optional<AtRecall> at =
        InterpolateAtRecall(recalls, values, target, Resolution(reading));
    if (!at) return {};
    result.qps.push_back(at->value);
    result.at_recall = at->recall;
  }
  return result;
}

double WallOverCpu(const ContestantRuns& runs) {
  std::vector<double> ratios;
  for (const SettingRuns& setting : runs.settings) {
    for (std::size_t r = 0; r < setting.seconds.size(); ++r)
      ratios.push_back(setting.seconds[r] / setting.cpu_seconds[r]);
  }
  return ratios.empty() ? 0 : Median(std::move(ratios));
}

/// What `value` says of the points of the front that have it, at a recall.
std::optional<double> AtRecallOfFront(
    const ContestantFigures& contestant, double target, const Reading& reading,
    const std::function<std::optional<double>(const PointFigures&)>& value) {
  std::vector<double> recalls, values;
  for (const std::size_t i : Front(contestant.points)) {
    const std::optional<double> found = value(contestant.points[i]);
    if (!found) continue;
    recalls.push_back(contestant.points[i].recall);
    values.push_back(std::max(*found, 1e-9));  // none at all: a log needs something
  }
  const std::optional<AtRecall> at =
      InterpolateAtRecall(recalls, values, target, Resolution(reading));
  return at ? std::optional(at->value) : std::nullopt;
}

}  // namespace

std::vector<ContestantFigures> Read(const std::vector<ContestantRuns>& runs,
                                    const Reading& reading) {
  std::vector<ContestantFigures> figures;
  figures.reserve(runs.size());
  for (const ContestantRuns& contestant : runs) {
    figures.push_back({contestant.name,
                       contestant.ready,
                       contestant.build,
                       Points(contestant, reading),
                       {},
                       WallOverCpu(contestant)});
  }
  const auto reference = std::find_if(runs.begin(), runs.end(), [&](const ContestantRuns& c) {
    return c.name == reading.reference;
  });
  for (const double target : reading.targets) {
    RoundsAtTarget of_reference;
    if (reference != runs.end())
      of_reference =
          ReadRounds(*reference, figures[reference - runs.begin()].points, target, reading);
    for (std::size_t c = 0; c < runs.size(); ++c) {
      const RoundsAtTarget rounds = ReadRounds(runs[c], figures[c].points, target, reading);
      TargetFigures at;
      at.target = target;
      if (!rounds.qps.empty()) {
        at.qps = Median(rounds.qps);
        at.qps_mad = Mad(rounds.qps);
        at.at_recall = rounds.at_recall;
        std::vector<double> ratios;
        for (std::size_t r = 0; r < of_reference.qps.size(); ++r)
          ratios.push_back(rounds.qps[r] / of_reference.qps[r]);
        if (!ratios.empty()) {
          at.ratio = Median(ratios);
          at.ratio_mad = Mad(ratios);
        }
      }
      figures[c].targets.push_back(at);
    }
  }
  return figures;
}

ContestantRuns Filter(const ContestantRuns& runs, const std::string& name, const Json& match) {
  ContestantRuns kept = {name, runs.ready, runs.build, {}};
  for (const SettingRuns& runs_of : runs.settings) {
    Json matched = runs_of.setting;
    matched.update(match);
    if (matched == runs_of.setting) kept.settings.push_back(runs_of);
  }
  return kept;
}

Json DescribeIndex(const Ready& ready, const Json& build) {
  const auto of_build = [&](double seconds) { return ready.finished ? Json() : Json(seconds); };
  return {{"library", ready.library},
          {"build", build},
          {"build_seconds", of_build(ready.build_seconds)},
          {"build_cpu_seconds", of_build(ready.build_cpu_seconds)},
          {"build_threads", ready.build_threads},
          {"phases", ready.phases},
          {"index_bytes", ready.index_bytes}};
}

std::optional<double> CounterAtRecall(const ContestantFigures& contestant,
                                      const std::string& counter, double target,
                                      const Reading& reading) {
  return AtRecallOfFront(contestant, target, reading,
                         [&](const PointFigures& point) -> std::optional<double> {
                           if (!point.counters.is_object() || !point.counters.contains(counter))
                             return std::nullopt;
                           return point.counters[counter].get<double>();
                         });
}

std::optional<double> ObservedAtRecall(const ContestantFigures& contestant, const std::string& name,
                                       double target, const Reading& reading) {
  return AtRecallOfFront(
      contestant, target, reading, [&](const PointFigures& point) -> std::optional<double> {
        const auto found = point.observed.find(name);
        return found == point.observed.end() ? std::nullopt : std::optional(found->second);
      });
}

ContestantRuns ByFirstAnswer(const ContestantRuns& runs) {
  ContestantRuns read = runs;
  for (SettingRuns& setting : read.settings) setting.recall = setting.recall_at_1;
  return read;
}

ContestantRuns ByCounter(const ContestantRuns& runs, const std::string& counter,
                         const Reading& reading) {
  ContestantRuns read = {runs.name, runs.ready, runs.build, {}};
  for (const SettingRuns& setting : runs.settings) {
    if (!setting.counters.is_object() || !setting.counters.contains(counter)) continue;
    // A log needs something.
    const double count = std::max(setting.counters[counter].get<double>(), 1e-9);
    read.settings.push_back(setting);
    for (std::vector<double>* seconds :
         {&read.settings.back().seconds, &read.settings.back().cpu_seconds})
      seconds->assign(setting.recall.size(), count * static_cast<double>(reading.queries));
  }
  return read;
}

Json Shaped(const Json& settings, const std::vector<RunShape>& shapes) {
  Json shaped = Json::array();
  for (const RunShape& shape : shapes) {
    for (Json setting : settings) {
      setting.update(Json{{"threads", shape.threads}, {"in_flight", shape.in_flight}});
      shaped.push_back(std::move(setting));
    }
  }
  return shaped;
}

RunShape ShapeOfSetting(const Json& setting) {
  return {setting.value("threads", 1), setting.value("in_flight", 1)};
}

std::vector<ContestantRuns> SplitByShape(const std::vector<ContestantRuns>& runs) {
  std::vector<ContestantRuns> rows;
  for (const ContestantRuns& contestant : runs) {
    std::set<std::pair<int, int>> seen;
    for (const SettingRuns& setting : contestant.settings) {
      const auto [threads, in_flight] = ShapeOfSetting(setting.setting);
      if (!seen.emplace(threads, in_flight).second) continue;
      std::string name =
          absl::StrCat(contestant.name, ", ", threads, threads == 1 ? " thread" : " threads");
      if (in_flight > 1) absl::StrAppend(&name, ", ", in_flight, " in flight");
      rows.push_back(Filter(contestant, name, {{"threads", threads}, {"in_flight", in_flight}}));
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return ShapeOfSetting(a.settings[0].setting).threads <
           ShapeOfSetting(b.settings[0].setting).threads;
  });
  return rows;
}

Json SettingWithoutThreads(const Json& setting) {
  Json dials = setting;
  dials.erase("threads");
  return dials;
}

std::vector<Turn> Schedule(std::span<const std::size_t> settings_of, int round) {
  std::vector<std::pair<double, Turn>> timed;
  for (std::size_t c = 0; c < settings_of.size(); ++c) {
    for (std::size_t s = 0; s < settings_of[c]; ++s) {
      timed.push_back(
          {(static_cast<double>(s) + 0.5) / static_cast<double>(settings_of[c]), {c, s}});
    }
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Turn> turns;
  turns.reserve(timed.size());
  for (const auto& [time, turn] : timed) turns.push_back(turn);
  if (round % 2 == 1) std::reverse(turns.begin(), turns.end());
  return turns;
}

}  // namespace hmann
