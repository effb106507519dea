#include "eval/results.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/columns.h"
#include "eval/hardware_limit.h"
#include "index/base/units.h"

namespace hmann {
namespace {

Json PointJson(const PointFigures& point) {
  return {{"setting", point.setting}, {"recall", point.recall}, {"qps", point.qps},
          {"qps_mad", point.qps_mad}, {"front", point.front},   {"counters", point.counters}};
}

/// `of`: whose they are.
Json TargetJson(const TargetFigures& at, const ContestantFigures& of, const SweepResult& result) {
  const Reading& reading = result.reading;
  const std::optional<double> lines = CounterAtRecall(of, "lines", at.target, reading);
  const std::optional<double> limit =
      of.ready.waits ? std::nullopt : MemoryLimitQps(result.memory, lines);
  const int threads = of.points.empty() ? 1 : ShapeOfSetting(of.points[0].setting).threads;
  return {{"lines", OrNull(lines)},
          {"of_limit", limit && at.qps ? Json(*at.qps / (threads * *limit)) : Json(nullptr)},
          {"mean_us", OrNull(ObservedAtRecall(of, "mean_us", at.target, reading))},
          {"p99_us", OrNull(ObservedAtRecall(of, "p99_us", at.target, reading))},
          {"recall", at.target},
          {"qps", OrNull(at.qps)},
          {"qps_mad", OrNull(at.qps_mad)},
          {"at_recall", OrNull(at.at_recall)},
          {"ratio", OrNull(at.ratio)},
          {"ratio_mad", OrNull(at.ratio_mad)}};
}

Json ContestantJson(const ContestantFigures& contestant, const SweepResult& result) {
  Json points = Json::array(), targets = Json::array();
  for (const PointFigures& point : contestant.points) points.push_back(PointJson(point));
  for (const TargetFigures& at : contestant.targets)
    targets.push_back(TargetJson(at, contestant, result));
  Json json = {{"name", contestant.name}};
  json.update(DescribeIndex(contestant.ready, contestant.build));
  json.update(Json{{"wall_over_cpu", contestant.wall_over_cpu},
                   {"waits", contestant.ready.waits},
                   {"points", points},
                   {"targets", targets}});
  return json;
}

/// Of a time that may not be known.
std::string TimeCell(const Json& seconds) {
  return seconds.is_null() ? "-" : FormatDuration(seconds.get<double>());
}

bool Has(const SweepResult& result, const std::string& name) {
  return std::any_of(result.runs.begin(), result.runs.end(),
                     [&](const ContestantRuns& runs) { return runs.name == name; });
}

/// hmann beside itself; null unless it ran twice.
Json Noise(const SweepResult& result) {
  if (!Has(result, "hmann")) return nullptr;
  Reading reading = result.reading;
  reading.reference = "hmann";
  for (const ContestantFigures& contestant : Read(result.runs, reading))
    if (contestant.name == "hmann-aa") return NoiseOf(contestant);
  return nullptr;
}

/// A row for each contestant that counts, by walk where it has several: what a query took
/// at each target, along the front of that counter.
Json Work(const SweepResult& result) {
  Json work = Json::array();
  std::set<std::pair<Json, Json>> seen;
  for (const ContestantRuns& runs : result.runs) {
    // However a contestant's queries are spread, each takes the same work.
    if (!result.search_threads.empty() && !seen.emplace(runs.build, runs.ready.library).second)
      continue;
    std::set<std::string> walks;  // "": of a contestant that has one
    for (const SettingRuns& setting : runs.settings)
      walks.insert(setting.setting.value("walk", std::string()));
    for (const std::string& walk : walks) {
      const ContestantRuns of_walk =
          Filter(runs, runs.name, walk.empty() ? Json::object() : Json{{"walk", walk}});
      Json row = {{"contestant", runs.name}, {"walk", walk}};
      for (const char* counter : {"distances", "slow_reads"}) {
        const ContestantRuns counted = ByCounter(of_walk, counter, result.reading);
        if (counted.settings.empty()) continue;
        row[counter] = Json::array();
        const std::vector<ContestantFigures> figures = Read({counted}, result.reading);
        for (const TargetFigures& at : figures[0].targets)
          row[counter].push_back(at.qps ? Json(1 / *at.qps) : Json(nullptr));
      }
      if (row.contains("distances")) work.push_back(row);
    }
  }
  return work;
}

/// Of a sweep that asked for latencies.
void PrintLatencies(const Json& figures, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"mean / p99 us of a query"}};
  for (const Json& target : figures["targets"])
    rows[0].push_back(absl::StrFormat("at %g", target.get<double>()));
  for (const Json& contestant : figures["contestants"]) {
    rows.push_back({contestant["name"].get<std::string>()});
    for (const Json& at : contestant["targets"]) {
      rows.back().push_back(at["mean_us"].is_null()
                                ? "-"
                                : absl::StrFormat("%.0f / %.0f", at["mean_us"].get<double>(),
                                                  at["p99_us"].get<double>()));
    }
  }
  PrintColumns(rows, 1, out);
}

void PrintWork(const Json& figures, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"work a query", "walk"}};
  for (const auto& [counter, name] :
       {std::pair("distances", "distances"), std::pair("slow_reads", "slow reads")}) {
    for (const Json& target : figures["targets"])
      rows[0].push_back(absl::StrFormat("%s at %g", name, target.get<double>()));
    for (std::size_t i = 0; i < figures["work"].size(); ++i) {
      const Json& row = figures["work"][i];
      if (rows.size() < i + 2)
        rows.push_back({row["contestant"].get<std::string>(), row["walk"].get<std::string>()});
      for (std::size_t t = 0; t < figures["targets"].size(); ++t) {
        const bool has = row.contains(counter) && !row[counter][t].is_null();
        rows[i + 1].push_back(has ? absl::StrFormat("%.1f", row[counter][t].get<double>()) : "-");
      }
    }
  }
  PrintColumns(rows, 2, out);
}

/// What a contestant in memory makes of the lines that this memory gives.
void PrintLimits(const Json& figures, std::ostream& out) {
  const auto best = std::min_element(
      figures["memory"].begin(), figures["memory"].end(), [](const Json& a, const Json& b) {
        return a["ns_a_line"].get<double>() < b["ns_a_line"].get<double>();
      });
  std::vector<std::vector<std::string>> rows = {{"lines a query, of what DRAM gives"}};
  for (const Json& target : figures["targets"])
    rows[0].push_back(absl::StrFormat("at %g", target.get<double>()));
  for (const Json& contestant : figures["contestants"]) {
    std::vector<std::string> row = {contestant["name"].get<std::string>()};
    for (const Json& at : contestant["targets"]) {
      if (at["of_limit"].is_null()) continue;
      row.push_back(absl::StrFormat("%.0f, %.0f %%", at["lines"].get<double>(),
                                    100 * at["of_limit"].get<double>()));
    }
    if (row.size() == rows[0].size()) rows.push_back(std::move(row));
  }
  if (rows.size() == 1) return;
  out << absl::StrFormat("DRAM gives a thread a line at random every %.1f ns, %d loads in flight\n",
                         (*best)["ns_a_line"].get<double>(), (*best)["loads"].get<int>());
  PrintColumns(rows, 1, out);
}

std::string QpsCell(const Json& at) {
  if (at["qps"].is_null()) return "-";
  const bool above = at["at_recall"].get<double>() > at["recall"].get<double>() + 1e-12;
  return absl::StrFormat("%.0f%s", at["qps"].get<double>(), above ? "*" : "");
}

std::string RatioCell(const Json& at) {
  if (at["ratio"].is_null()) return "";
  return absl::StrFormat("%.2fx +-%.2f", at["ratio"].get<double>(), at["ratio_mad"].get<double>());
}

}  // namespace

std::string BaseName(const Json& data) {
  return data[data["base"].is_null() ? "queries" : "base"].get<std::string>();
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json NoiseOf(const ContestantFigures& contestant) {
  Json noise = Json::array();
  for (const TargetFigures& at : contestant.targets) {
    if (at.ratio)
      noise.push_back({{"recall", at.target}, {"ratio", *at.ratio}, {"ratio_mad", *at.ratio_mad}});
  }
  return noise;
}

void PrintNoise(const Json& noise, std::ostream& out) {
  for (const Json& at : noise) {
    out << absl::StrFormat("  noise: hmann beside itself at %g: ratio %.3f +-%.3f\n",
                           at["recall"].get<double>(), at["ratio"].get<double>(),
                           at["ratio_mad"].get<double>());
  }
}

Json ToJson(const SweepResult& result) {
  Json contestants = Json::array();
  for (const ContestantFigures& contestant : Read(result.runs, result.reading))
    contestants.push_back(ContestantJson(contestant, result));
  const std::string base = BaseName(result.data);
  Json figures = {
      {"title", absl::StrCat("Recall against speed: ", base.substr(base.rfind('/') + 1))},
      {"data", result.data},
      {"build", result.build},
      {"environment", result.environment},
      {"rounds", result.rounds},
      {"clock", result.reading.clock == RunClock::kCpu ? "cpu" : "wall"},
      {"reference",
       Has(result, result.reading.reference) ? Json(result.reading.reference) : Json(nullptr)},
      {"targets", result.reading.targets},
      {"search_threads", result.search_threads},
      {"contestants", contestants}};
  for (const LoadsInFlight& at : result.memory)
    figures["memory"].push_back({{"loads", at.loads}, {"ns_a_line", at.ns_per_line.median}});
  if (Json work = Work(result); !work.empty()) figures["work"] = work;
  if (Json noise = Noise(result); !noise.is_null()) figures["noise"] = noise;
  return figures;
}

std::string DataLine(const Json& figures) {
  const Json& data = figures["data"];
  return absl::StrFormat("%s: %d x %d %s, %s; %d queries, k = %d; %d rounds", BaseName(data),
                         data["n"].get<std::uint64_t>(), data["dim"].get<int>(),
                         data["dtype"].get<std::string>(), data["metric"].get<std::string>(),
                         data["query_count"].get<std::uint64_t>(), data["k"].get<int>(),
                         figures["rounds"].get<int>());
}

void PrintSweepTable(const Json& figures, std::ostream& out) {
  out << DataLine(figures) << (figures["clock"] == "cpu" ? ", CPU" : ", wall") << " time"
      << (figures["search_threads"].empty() ? ", one search thread\n" : ", closed loop\n");
  std::vector<std::vector<std::string>> rows(1);
  rows[0] = {"contestant", "library", "build", "of CPU", "index", "wall/CPU"};
  for (const Json& target : figures["targets"]) {
    rows[0].push_back(absl::StrFormat("QPS at %g", target.get<double>()));
    rows[0].push_back(figures["reference"].is_null()
                          ? ""
                          : absl::StrCat("x ", figures["reference"].get<std::string>()));
  }
  bool above = false;
  double wall_over_cpu = 0;
  for (const Json& contestant : figures["contestants"]) {
    if (!contestant["waits"].get<bool>())
      wall_over_cpu = std::max(wall_over_cpu, contestant["wall_over_cpu"].get<double>());
    rows.push_back({contestant["name"].get<std::string>(), contestant["library"].get<std::string>(),
                    TimeCell(contestant["build_seconds"]),
                    TimeCell(contestant["build_cpu_seconds"]),
                    FormatSize(contestant["index_bytes"].get<std::uint64_t>()),
                    absl::StrFormat("%.2f", contestant["wall_over_cpu"].get<double>())});
    for (const Json& at : contestant["targets"]) {
      rows.back().push_back(QpsCell(at));
      rows.back().push_back(RatioCell(at));
      above = above || rows.back()[rows.back().size() - 2].ends_with('*');
    }
  }
  PrintColumns(rows, 2, out);
  if (!figures["search_threads"].empty()) PrintLatencies(figures, out);
  if (figures.contains("work")) PrintWork(figures, out);
  if (figures.contains("memory")) PrintLimits(figures, out);
  if (above) out << "  * the lowest recall that was measured lies above this target\n";
  if (wall_over_cpu > 1.05 && figures["clock"] == "wall") {
    out << "  the machine was busy: runs took longer than their CPU time; --clock cpu leaves the "
           "waiting out\n";
  }
  if (figures.contains("noise")) PrintNoise(figures["noise"], out);
}

}  // namespace hmann
