#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/columns.h"
#include "eval/scale_results.h"
#include "index/base/units.h"

namespace hmann {
namespace {

std::string Cell(const Json& value, int digits) {
  return value.is_number() ? absl::StrFormat("%.*f", digits, value.get<double>()) : "-";
}

std::string SizeName(const Json& line) {
  const auto n = line["n"].get<std::uint64_t>();
  std::string name = n % 1'000'000 == 0 ? absl::StrCat(n / 1'000'000, "M")
                     : n % 1000 == 0    ? absl::StrCat(n / 1000, "k")
                                        : absl::StrCat(n);
  if (line["made_up"].get<bool>()) name += ", made up";
  return name;
}

std::string SeriesName(const Json& of) {
  const std::string bytes = absl::StrFormat("%g B", of["fast_bytes"].get<double>());
  return of["tier"].is_null() ? absl::StrCat(bytes, ", build")
                              : absl::StrCat(bytes, ", ", of["tier"].get<std::string>(), ", ",
                                             of["walk"].get<std::string>());
}

void PrintBuilds(const Json& figures, std::ostream& out) {
  std::vector<std::vector<std::string>> cells = {{"size", "fast bytes a vector", "structure",
                                                  "made of", "wall", "CPU", "memory", "work",
                                                  "file", "placed a vector"}};
  for (const Json& line : figures["sizes"]) {
    for (const Json& index : line["indexes"]) {
      const Json& build = index["build"];
      const Json& placed = index["placed_bytes"];
      cells.push_back({SizeName(line), absl::StrFormat("%g", index["fast_bytes"].get<double>()),
                       index["structure"].get<std::string>(), build["from"].get<std::string>(),
                       FormatDuration(build["seconds"].get<double>()),
                       FormatDuration(build["cpu_seconds"].get<double>()),
                       FormatSize(build["peak_anonymous_bytes"].get<std::uint64_t>()),
                       FormatSize(build["work_bytes"].get<std::uint64_t>()),
                       FormatSize(build["file_bytes"].get<std::uint64_t>()),
                       placed.is_null() ? "-"
                                        : absl::StrFormat("%.1f B", placed.get<double>() /
                                                                        line["n"].get<double>())});
    }
  }
  PrintColumns(cells, 4, out);
}

void PrintRows(const Json& figures, const Json& target, std::ostream& out) {
  std::vector<std::vector<std::string>> cells = {
      {absl::StrFormat("at recall %g", target.get<double>()), "size", "in flight", "QPS",
       "of limit", "mean us", "p99 us", "distances", "codes", "reads", "rounds", "I/Os"}};
  for (const Json& line : figures["sizes"]) {
    for (const Json& index : line["indexes"]) {
      for (const Json& row : index["rows"]) {
        if (row["target"] != target) continue;
        Json series = row;
        series["fast_bytes"] = index["fast_bytes"];
        const bool above = row["at_recall"].is_number() &&
                           row["at_recall"].get<double>() > target.get<double>() + 1e-12;
        cells.push_back(
            {SeriesName(series), SizeName(line),
             absl::StrCat(row["threads"].get<int>(), " x ", row["in_flight"].get<int>()),
             row["qps"].is_null() ? "not reached" : Cell(row["qps"], 0) + (above ? "*" : ""),
             row["of_limit"].is_null()
                 ? "-"
                 : absl::StrFormat("%.0f %%", 100 * row["of_limit"].get<double>()),
             Cell(row["mean_us"], 0), Cell(row["p99_us"], 0), Cell(row["distances"], 0),
             Cell(row["estimates"], 0), Cell(row["slow_reads"], 1), Cell(row["rounds"], 1),
             Cell(row["io_reads"], 1)});
      }
    }
  }
  PrintColumns(cells, 2, out);
}

std::string ErrorCell(const Json& at, const char* sign) {
  if (at["error"].is_null())
    return absl::StrFormat("%.4g, error unknown", at["value"].get<double>());
  return absl::StrFormat("%.4g %s %.3g", at["value"].get<double>(), sign,
                         at["error"].get<double>());
}

void PrintGrowth(const Json& figures, std::ostream& out) {
  const auto rows = figures["goal"]["rows"].get<double>();
  std::vector<std::vector<std::string>> cells = {
      {"growth", "recall", "figure", "a decade adds", "+- rms", "n to the", "+- rms",
       absl::StrFormat("extrapolated to %.3g by the logarithm", rows),
       "extrapolated by the power"}};
  for (const Json& of : figures["growth"]) {
    const Json& logarithm = of["logarithm"];
    const Json& power = of["power"];
    cells.push_back({SeriesName(of), Cell(of["target"], 2), of["figure"].get<std::string>(),
                     absl::StrFormat("%.3g", logarithm["slope"].get<double>() * std::log(10)),
                     absl::StrFormat("%.1f %%", 100 * logarithm["rms"].get<double>()),
                     absl::StrFormat("%.3f", power["slope"].get<double>()),
                     absl::StrFormat("%.1f %%", 100 * power["rms"].get<double>()),
                     ErrorCell(of["extrapolated"]["logarithm"], "+-"),
                     ErrorCell(of["extrapolated"]["power"], "x or /")});
  }
  PrintColumns(cells, 3, out);
}

void PrintGoal(const Json& goal, std::ostream& out) {
  out << absl::StrFormat(
      "%d vectors on %s of fast memory: the planner takes %s;", goal["rows"].get<std::uint64_t>(),
      FormatSize(goal["fast_memory_bytes"].get<std::uint64_t>()),
      goal["structure"].is_null() ? "nothing" : goal["structure"].get<std::string>());
  for (const Json& level : goal["levels"]) {
    out << absl::StrFormat(" %g B a vector %s;", level["fast_bytes"].get<double>(),
                           level["fits"].get<bool>() ? "fit" : "do not fit");
  }
  out << " all of it extrapolated\n";
}

}  // namespace

void PrintScaleTables(const Json& figures, std::ostream& out) {
  const Json& head = figures["head"];
  out << absl::StrFormat("%s: %d x %s, %s, k = %d, M %d\n", figures["base"].get<std::string>(),
                         head["base"]["dim"].get<int>(), head["base"]["dtype"].get<std::string>(),
                         head["metric"].get<std::string>(), head["k"].get<int>(),
                         head["m"].get<int>());
  PrintBuilds(figures, out);
  for (const Json& target : figures["targets"]) PrintRows(figures, target, out);
  out << "  * the lowest recall that was measured lies above this target: growth is not read of "
         "it\n"
         "  of limit: QPS beside what memory (cache lines computed from counters, at the rate of "
         "loads measured here)\n  or drive (its latency and rate at the depth used) allows by "
         "itself\n";
  PrintGrowth(figures, out);
  PrintGoal(figures["goal"], out);
}

}  // namespace hmann
