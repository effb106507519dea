/// Turns the runs of a benchmark into figures: the single set of statistics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/adapters/adapter.h"
#include "eval/system.h"

namespace hmann::eval {

/// What QPS is computed from: elapsed time, or CPU time of the search thread.
enum class RunClock { kWall, kCpu };

/// One setting of a curve, with one value per round in each vector.
struct SettingRuns {
  Json setting;
  Json counters;  ///< null if not counted
  std::vector<double> recall, seconds, cpu_seconds;
  std::vector<bool> noisy = {};  ///< {}: none
  /// Further values of timed runs, by name: "mean_us", "p99_us", "read_bytes" per query.
  std::map<std::string, std::vector<double>> observed = {};
};

/// The settings of one system in one place, over one data set.
struct Curve {
  std::string name;              ///< without the shape
  std::string label;             ///< with it: "hmann, 2 threads, 8 in flight"
  Json system = Json::object();  ///< its line of results.jsonl
  Json spec = Json::object();    ///< the other fields of CurveSpec
  RunShape shape;
  std::vector<SettingRuns> settings;
};

/// Values that all figures of a benchmark share.
struct Reading {
  std::uint64_t queries = 0;
  std::uint32_t k = 0;
  RunClock clock = RunClock::kWall;
};

struct PointFigures {
  Json setting, counters;
  double recall = 0, qps = 0, qps_mad = 0;      ///< medians over rounds
  bool front = false;                           ///< on the Pareto front of its curve
  std::map<std::string, double> observed = {};  ///< medians over rounds
};

/// A median over rounds, and the median absolute deviation from it.
struct Spread {
  double median = 0, mad = 0;
};

/// QPS of a curve at a recall.
struct TargetFigures {
  Spread qps;
  double at_recall = 0;  ///< above the target if nothing was measured below it
};

/// Reads a curve. The front is chosen on medians, and each round is then read along that
/// front. So a curve with many settings gains nothing from lucky single runs. Disturbed
/// rounds count only if there are no others. The curve must outlive the reader.
class CurveReader {
 public:
  CurveReader(const Curve& curve, const Reading& reading);

  const Curve& curve() const { return curve_; }
  const std::vector<PointFigures>& points() const { return points_; }
  /// Median over all runs: 1.00 on a quiet machine.
  double WallOverCpu() const;

  /// nullopt here and below: the curve ends below the target.
  std::optional<TargetFigures> At(double target) const;
  /// QPS relative to another curve in the same round.
  std::optional<Spread> RatioTo(const CurveReader& other, double target) const;
  /// A counter, or another value of timed runs, along the front at a recall. Interpolates
  /// as for QPS. nullopt also if nothing was counted.
  std::optional<double> ValueAt(const std::string& name, double target) const;

 private:
  /// QPS of each round at the target; {}: the front does not reach it.
  struct Rounds {
    std::vector<double> qps;
    std::vector<bool> noisy;
    double at_recall = 0;
  };
  Rounds RoundsAt(double target) const;
  double Resolution() const { return 1.0 / (static_cast<double>(reading_.queries) * reading_.k); }
  double Qps(const SettingRuns& runs, std::size_t round) const;

  const Curve& curve_;
  Reading reading_;
  std::vector<PointFigures> points_;
  std::vector<std::size_t> front_;  ///< of points_, recall ascending
};

/// The undisturbed values, or all of them if there are none.
std::vector<double> Quiet(const std::vector<double>& values, const std::vector<bool>& noisy);

/// Every setting in every shape.
Json Shaped(const Json& settings, const std::vector<RunShape>& shapes);
/// The shape in a setting; one thread and one query by default.
RunShape ShapeOfSetting(const Json& setting);
/// Whether a setting has all of `match`.
bool Matches(const Json& setting, const Json& match);
/// A setting without "threads". The number of threads changes neither a query's result
/// nor its work.
Json SettingWithoutThreads(const Json& setting);

/// The order of runs, as (system, setting) pairs, each once. It spreads each system's
/// settings evenly over the round, however many each has, so that all systems see the
/// same machine. Odd rounds run backwards.
struct Turn {
  std::size_t system = 0, setting = 0;
  bool operator==(const Turn&) const = default;
};
std::vector<Turn> Schedule(std::span<const std::size_t> settings_of, int round);

}  // namespace hmann::eval
