/// From the runs of a sweep to what is told about them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/adapters/adapter.h"
#include "eval/contestant.h"

namespace hmann {

enum class RunClock {
  kWall,
  kCpu
};  ///< what QPS is made of: elapsed time, or CPU time of the search thread

/// One setting of a contestant: a value per round of each.
struct SettingRuns {
  Json setting;
  Json counters;  ///< null where nobody counted
  std::vector<double> recall, seconds, cpu_seconds;
  std::vector<double> recall_at_1 = {};  ///< of the same answers: how often the first is a nearest
  std::map<std::string, std::vector<double>> observed =
      {};  ///< what else timed runs told, by name: "mean_us", "p99_us", "read_bytes" a query
};

struct ContestantRuns {
  std::string name;
  Ready ready;
  Json build;  ///< its own build settings
  std::vector<SettingRuns> settings;
};

struct PointFigures {
  Json setting, counters;
  double recall = 0, qps = 0, qps_mad = 0;  ///< medians over rounds
  bool front = false;  ///< no other setting of this contestant beats it in both
  std::map<std::string, double> observed = {};  ///< medians over rounds
};

/// A curve read at a recall. Absent values: the curve ends below the target.
struct TargetFigures {
  double target = 0;
  std::optional<double> qps, qps_mad;
  std::optional<double> at_recall;  ///< above the target if nothing was measured below it
  std::optional<double> ratio,
      ratio_mad;  ///< to the reference in the same round; absent without one
};

struct ContestantFigures {
  std::string name;
  Ready ready;
  Json build;
  std::vector<PointFigures> points;
  std::vector<TargetFigures> targets;
  double wall_over_cpu = 0;  ///< median over all runs: 1.00 on a quiet machine
};

/// What the figures of a sweep share.
struct Reading {
  std::uint64_t queries = 0;
  std::uint32_t k = 0;
  RunClock clock = RunClock::kWall;
  std::vector<double> targets;
  std::string reference;  ///< contestant that ratios are to; "" for none
};

/// The front is chosen on medians, and each round is then read along that same front, so
/// that a contestant with many settings gains nothing by the luck of single runs. Ratios
/// are taken within a round; their median and MAD are over rounds.
std::vector<ContestantFigures> Read(const std::vector<ContestantRuns>& runs,
                                    const Reading& reading);

/// The settings of `runs` that have all of `match`, as a contestant of its own (a walk of
/// hmann, say).
ContestantRuns Filter(const ContestantRuns& runs, const std::string& name, const Json& match);

/// What the index of a contestant is, for JSON.
Json DescribeIndex(const Ready& ready, const Json& build);

/// A counter along the front at a recall, log over -log(1 - recall) as QPS; nullopt where
/// the curve does not reach or nobody counted.
std::optional<double> CounterAtRecall(const ContestantFigures& contestant,
                                      const std::string& counter, double target,
                                      const Reading& reading);

/// The same of what timed runs told beside their times.
std::optional<double> ObservedAtRecall(const ContestantFigures& contestant, const std::string& name,
                                       double target, const Reading& reading);

/// The same runs, read by how often the first answer is a nearest: for a Reading with k =
/// 1.
ContestantRuns ByFirstAnswer(const ContestantRuns& runs);

/// The same runs with a counter in the place of the clock: QPS becomes one over the
/// counter's mean a query, so that fronts, targets and ratios are of work instead of
/// time. Settings that were not counted are left out.
ContestantRuns ByCounter(const ContestantRuns& runs, const std::string& counter,
                         const Reading& reading);

/// Every setting in every shape.
Json Shaped(const Json& settings, const std::vector<RunShape>& shapes);
/// The shape that a setting says: one thread, one query where it says none.
RunShape ShapeOfSetting(const Json& setting);
/// The same apart again, a contestant a shape, those of as many threads together: "hmann,
/// 2 threads, 8 in flight".
std::vector<ContestantRuns> SplitByShape(const std::vector<ContestantRuns>& runs);

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

}  // namespace hmann
