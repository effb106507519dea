#include "eval/figures.h"

#include <algorithm>
#include <utility>

#include "eval/statistics.h"
#include "index/base/statistics.h"

namespace hmann::eval {
namespace {

Spread SpreadOf(const std::vector<double>& values) { return {Median(values), Mad(values)}; }

}  // namespace

std::vector<double> Quiet(const std::vector<double>& values, const std::vector<bool>& noisy) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i >= noisy.size() || !noisy[i]) kept.push_back(values[i]);
  }
  return kept.empty() ? values : kept;
}

CurveReader::CurveReader(const Curve& curve, const Reading& reading)
    : curve_(curve), reading_(reading) {
  std::vector<OperatingPoint> operating;
  for (const SettingRuns& runs : curve.settings) {
    std::vector<double> qps;
    for (std::size_t r = 0; r < runs.seconds.size(); ++r) qps.push_back(Qps(runs, r));
    const Spread spread = SpreadOf(Quiet(qps, runs.noisy));
    points_.push_back(
        {runs.setting, runs.counters, Median(runs.recall), spread.median, spread.mad, false});
    for (const auto& [name, values] : runs.observed)
      points_.back().observed[name] = Median(Quiet(values, runs.noisy));
    operating.push_back({points_.back().recall, points_.back().qps});
  }
  front_ = ParetoFront(operating);
  for (const std::size_t i : front_) points_[i].front = true;
}

double CurveReader::Qps(const SettingRuns& runs, std::size_t round) const {
  const double taken =
      reading_.clock == RunClock::kCpu ? runs.cpu_seconds[round] : runs.seconds[round];
  return static_cast<double>(reading_.queries) / taken;
}

double CurveReader::WallOverCpu() const {
  std::vector<double> ratios;
  for (const SettingRuns& runs : curve_.settings) {
    for (std::size_t r = 0; r < runs.seconds.size(); ++r)
      ratios.push_back(runs.seconds[r] / runs.cpu_seconds[r]);
  }
  return ratios.empty() ? 0 : Median(std::move(ratios));
}

CurveReader::Rounds CurveReader::RoundsAt(double target) const {
  std::vector<double> recalls, values(front_.size());
  for (const std::size_t i : front_) recalls.push_back(points_[i].recall);
  // The neighbors between which the target lies.
  const auto above = static_cast<std::size_t>(
      std::lower_bound(recalls.begin(), recalls.end(), target) - recalls.begin());
  Rounds rounds;
  std::size_t count = SIZE_MAX;
  for (const std::size_t i : front_) count = std::min(count, curve_.settings[i].seconds.size());
  for (std::size_t r = 0; r < (front_.empty() ? 0 : count); ++r) {
    bool noisy = false;
    for (std::size_t i = 0; i < front_.size(); ++i) {
      const SettingRuns& runs = curve_.settings[front_[i]];
      values[i] = Qps(runs, r);
      const bool read = i == above || i + 1 == above;
      noisy = noisy || (read && r < runs.noisy.size() && runs.noisy[r]);
    }
    const std::optional<AtRecall> at = InterpolateAtRecall(recalls, values, target, Resolution());
    if (!at) return {};
    rounds.qps.push_back(at->value);
    rounds.noisy.push_back(noisy);
    rounds.at_recall = at->recall;
  }
  return rounds;
}

std::optional<TargetFigures> CurveReader::At(double target) const {
  const Rounds rounds = RoundsAt(target);
  if (rounds.qps.empty()) return std::nullopt;
  return TargetFigures{SpreadOf(Quiet(rounds.qps, rounds.noisy)), rounds.at_recall};
}

std::optional<Spread> CurveReader::RatioTo(const CurveReader& other, double target) const {
  const Rounds own = RoundsAt(target), others = other.RoundsAt(target);
  std::vector<double> ratios;
  std::vector<bool> noisy;
  for (std::size_t r = 0; r < std::min(own.qps.size(), others.qps.size()); ++r) {
    ratios.push_back(own.qps[r] / others.qps[r]);
    noisy.push_back(own.noisy[r] || others.noisy[r]);
  }
  return ratios.empty() ? std::nullopt : std::optional(SpreadOf(Quiet(ratios, noisy)));
}

std::optional<double> CurveReader::ValueAt(const std::string& name, double target) const {
  std::vector<double> recalls, values;
  for (const std::size_t i : front_) {
    const PointFigures& point = points_[i];
    const auto reported = point.observed.find(name);
    const bool counted = point.counters.is_object() && point.counters.contains(name);
    if (reported == point.observed.end() && !counted) continue;
    recalls.push_back(point.recall);
    values.push_back(counted ? point.counters[name].get<double>() : reported->second);
  }
  const std::optional<AtRecall> at = InterpolateAtRecall(recalls, values, target, Resolution());
  return at ? std::optional(at->value) : std::nullopt;
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

bool Matches(const Json& setting, const Json& match) {
  Json matched = setting;
  matched.update(match);
  return matched == setting;
}

Json SettingWithoutThreads(const Json& setting) {
  Json params = setting;
  params.erase("threads");
  return params;
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

}  // namespace hmann::eval
