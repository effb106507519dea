/// From the runs of a benchmark to what is told about them: the one set of statistics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/adapters/adapter.h"
#include "eval/contestant.h"

namespace hmann::eval {

enum class RunClock {
  kWall,
  kCpu
};  ///< what QPS is made of: elapsed time, or CPU time of the search thread

/// One setting of a curve: a value per round of each.
struct SettingRuns {
  Json setting;
  Json counters;  ///< null where nobody counted
  std::vector<double> recall, seconds, cpu_seconds;
  std::vector<bool> noisy = {};  ///< {}: none
  std::map<std::string, std::vector<double>> observed =
      {};  ///< what else timed runs told, by name: "mean_us", "p99_us", "read_bytes" a query
};

/// Settings of one system in one place, over one data set.
struct Curve {
  std::string name;              ///< without the shape
  std::string label;             ///< with it: "hmann, 2 threads, 8 in flight"
  Json system = Json::object();  ///< its line of results.jsonl
  Json spec = Json::object();    ///< kind, aside, beside (CurveSpec)
  RunShape shape;
  std::vector<SettingRuns> settings;
};

/// What the figures of a benchmark share.
struct Reading {
  std::uint64_t queries = 0;
  std::uint32_t k = 0;
  RunClock clock = RunClock::kWall;
};

struct PointFigures {
  Json setting, counters;
  double recall = 0, qps = 0, qps_mad = 0;      ///< medians over rounds
  bool front = false;                           ///< no other setting of this curve beats it in both
  std::map<std::string, double> observed = {};  ///< medians over rounds
};

/// A median over rounds, and the median distance from it.
struct Spread {
  double median = 0, mad = 0;
};

/// QPS of a curve read at a recall.
struct TargetFigures {
  Spread qps;
  double at_recall = 0;  ///< above the target if nothing was measured below it
};

/// Reads a curve. The front is chosen on medians, and each round is then read along that
/// same front, so that a curve with many settings gains nothing by the luck of single
/// runs. Rounds that others disturbed count where there are no others. The curve must
/// outlive it.
class CurveReader {
 public:
  CurveReader(const Curve& curve, const Reading& reading);

  const Curve& curve() const { return curve_; }
  const std::vector<PointFigures>& points() const { return points_; }
  /// Median over all runs: 1.00 on a quiet machine.
  double WallOverCpu() const;

  /// nullopt, as below: the curve ends below the target.
  std::optional<TargetFigures> At(double target) const;
  /// QPS as a multiple of another's in the same round.
  std::optional<Spread> RatioTo(const CurveReader& other, double target) const;
  /// A counter, or what timed runs told, along the front at a recall, log over -log(1 -
  /// recall) as QPS; nullopt where nobody counted, too.
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

/// The values that nobody disturbed; all, where there are none.
std::vector<double> Quiet(const std::vector<double>& values, const std::vector<bool>& noisy);

/// Every setting in every shape.
Json Shaped(const Json& settings, const std::vector<RunShape>& shapes);
/// The shape that a setting says: one thread, one query where it says none.
RunShape ShapeOfSetting(const Json& setting);
/// Whether a setting has all of `match`.
bool Matches(const Json& setting, const Json& match);
/// A setting without "threads": however many there are, a query finds the same with the
/// same work.
Json SettingWithoutThreads(const Json& setting);

/// Which run comes when: (contestant, setting) pairs, each once. The contestants'
/// settings are spread evenly over the round, however many each has, so that all of them
/// see the same machine; odd rounds run backwards.
struct Turn {
  std::size_t contestant = 0, setting = 0;
  bool operator==(const Turn&) const = default;
};
std::vector<Turn> Schedule(std::span<const std::size_t> settings_of, int round);

}  // namespace hmann::eval
