#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "eval/results.h"
#include "index/base/units.h"

namespace hmann {
namespace {

std::string Number(const Json& value) {
  const double shown = value.get<double>(), size = std::abs(shown);
  const int digits = size >= 100 || shown == std::floor(shown) ? 0 : size >= 1 ? 2 : 4;
  return absl::StrFormat("%.*f", digits, shown);
}
std::string Percent(const Json& value) {
  return absl::StrFormat("%.0f %%", 100 * value.get<double>());
}
std::string Size(const Json& value) { return FormatSize(value.get<std::uint64_t>()); }
std::string Time(const Json& value) { return FormatDuration(value.get<double>()); }
std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}
std::string Vectors(const Json& value) {
  const auto n = value.get<std::uint64_t>();
  return n % 1'000'000 == 0 ? absl::StrCat(n / 1'000'000, "M")
         : n % 1000 == 0    ? absl::StrCat(n / 1000, "k")
                            : absl::StrCat(n);
}

struct Column {
  const char* title;
  const char* key;  ///< of a row; null or not there: an empty cell
  std::string (*format)(const Json& value);
};

constexpr Column kTarget[] = {{"vectors", "vectors", Vectors},
                              {"fast B a vector", "fast", Number},
                              {"QPS", "qps", Number},
                              {"+-", "qps_mad", Number},
                              {"x", "ratio", Number},
                              {"+-", "ratio_mad", Number},
                              {"of DRAM", "of_all_dram", Percent},
                              {"of +0 ns", "of_without_latency", Percent},
                              {"mean us", "mean_us", Number},
                              {"p99 us", "p99_us", Number},
                              {"CPU us", "cpu_us", Number},
                              {"distances", "distances", Number},
                              {"codes", "estimates", Number},
                              {"slow reads", "slow_reads", Number},
                              {"slow bytes", "slow_bytes", Number},
                              {"rounds", "rounds", Number},
                              {"I/Os", "io_reads", Number},
                              {"blocks", "blocks", Number},
                              {"lines", "lines", Number},
                              {"of limit", "of_limit", Percent},
                              {"of the disk", "disk_share", Percent}};
constexpr Column kBuild[] = {
    {"vectors", "vectors", Vectors},          {"library", "library", Text},
    {"build", "build_seconds", Time},         {"of CPU", "build_cpu_seconds", Time},
    {"memory", "peak_anonymous_bytes", Size}, {"work", "work_bytes", Size},
    {"index", "index_bytes", Size},           {"wall/CPU", "wall_over_cpu", Number}};
constexpr Column kDepth[] = {{"in flight", "depth", Number},
                             {"reads per second", "iops", Number},
                             {"mean us", "mean_us", Number}};
constexpr Column kMemory[] = {{"index file", "index_file_bytes", Size},
                              {"limit", "limit_bytes", Size},
                              {"own memory, loaded", "loaded_bytes", Size},
                              {"peak", "peak_bytes", Size}};
constexpr Column kLoad[] = {{"round", "round", Number},
                            {"rate", "rate", Number},
                            {"batch", "batch", Number},
                            {"offered", "offered", Number},
                            {"answered", "answered", Number},
                            {"queries/s", "queries_per_second", Number},
                            {"p50 us", "p50_us", Number},
                            {"p90 us", "p90_us", Number},
                            {"p99 us", "p99_us", Number},
                            {"p99.9 us", "p999_us", Number},
                            {"max us", "max_us", Number},
                            {"client CPU us", "client_cpu_us", Number},
                            {"server CPU us", "server_cpu_us", Number},
                            {"failed", "failed", Text}};

/// A line a row: its `name`, and the columns that say something in any row.
void Print(const std::string& title, const std::vector<Json>& rows, std::span<const Column> columns,
           std::ostream& out) {
  std::vector<std::vector<std::string>> cells = {{title}};
  for (const Json& row : rows) cells.push_back({row["name"].get<std::string>()});
  const auto has = [](const Json& row, const Column& column) {
    return row.contains(column.key) && !row[column.key].is_null();
  };
  for (const Column& column : columns) {
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const Json& row) { return has(row, column) && row[column.key] != 0; }))
      continue;
    cells[0].emplace_back(column.title);
    for (std::size_t i = 0; i < rows.size(); ++i)
      cells[i + 1].push_back(has(rows[i], column) ? column.format(rows[i][column.key]) : "");
  }
  for (std::size_t column = 0; column < cells[0].size(); ++column) {
    std::size_t width = 0;
    for (const auto& row : cells) width = std::max(width, row[column].size());
    for (auto& row : cells)
      row[column].insert(column == 0 ? row[column].size() : 0, width - row[column].size(), ' ');
  }
  for (const auto& row : cells) {
    const std::string line = absl::StrCat("  ", absl::StrJoin(row, "   "));
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }
}

/// What stands in a table: each curve, and each walk of those that have several.
std::vector<Json> Shown(const Json& figures) {
  std::vector<Json> rows;
  for (const Json& row : figures["contestants"]) {
    if (row["aside"].get<bool>() && row["kind"] != "measured") continue;
    rows.push_back(row);
    rows.back().erase("points");
    if (row["made_up"].get<bool>())
      rows.back()["name"] = absl::StrCat(Text(row["name"]), ", made up");
    if (figures.contains("sizes")) rows.back()["vectors"] = row["data"];
    if (row["fast_bytes"].is_number())
      rows.back()["fast"] = row["fast_bytes"].get<double>() / row["data"].get<double>();
  }
  return rows;
}

/// With another key as the name.
std::vector<Json> Named(const Json& rows, const char* key) {
  std::vector<Json> named(rows.begin(), rows.end());
  for (Json& row : named) row["name"] = row[key];
  return named;
}

void PrintContestants(const Json& figures, std::ostream& out) {
  const Json& data = figures["data"];
  out << absl::StrFormat(
      "%s: %d x %s, %s; k = %d; median of %d round%s, %s time, %s; x: times %s\n",
      figures["title"].get<std::string>(), data["dim"].get<int>(), Text(data["dtype"]),
      Text(data["metric"]), data["k"].get<int>(), figures["rounds"].get<int>(),
      figures["rounds"] == 1 ? "" : "s", figures["clock"] == "cpu" ? "CPU" : "wall",
      figures["shapes"].empty() ? "one search thread" : "closed loop", Text(figures["reference"]));
  const std::vector<Json> shown = Shown(figures);
  std::vector<Json> systems;  // whose curves share an index
  for (Json row : shown) {
    row["name"] = row["system"];
    if (std::none_of(systems.begin(), systems.end(), [&](const Json& other) {
          return other["name"] == row["name"] && other["data"] == row["data"];
        }))
      systems.push_back(std::move(row));
  }
  Print("system", systems, kBuild, out);
  bool above = false;
  for (std::size_t t = 0; t < figures["targets"].size(); ++t) {
    std::vector<Json> rows = shown;
    for (Json& row : rows) {
      const Json at = row["targets"][t];
      row.update(at);
      if (at["qps"].is_null()) row["name"] = absl::StrCat(Text(row["name"]), " (not reached)");
      if (!at["at_recall"].is_number() || at["at_recall"] == at["recall"]) continue;
      row["name"] = absl::StrCat(Text(row["name"]), "*");
      above = true;
    }
    Print(absl::StrFormat("at recall %g", figures["targets"][t].get<double>()), rows, kTarget, out);
  }
  if (above) out << "  * the lowest recall that was measured lies above this target\n";
}

void PrintQuiet(const Json& figures, std::ostream& out) {
  for (const Json& at : figures["noise"]) {
    out << absl::StrFormat("  noise: %s beside itself at %g: ratio %.3f +-%.3f\n",
                           at["contestant"].get<std::string>(), at["recall"].get<double>(),
                           at["ratio"].get<double>(), at["ratio_mad"].get<double>());
  }
  const Json& quiet = figures["quiet"];
  if (quiet["noisy"] > 0) {
    out << absl::StrFormat(
        "  the machine was busy: %d of %d runs were disturbed twice, and count only where there "
        "are no others%s\n",
        quiet["noisy"].get<int>(), quiet["runs"].get<int>(),
        figures["clock"] == "wall" ? "; --clock cpu leaves waiting for the CPU out" : "");
  }
  if (quiet["busy"].is_number()) {
    out << absl::StrFormat("  others took %.0f %% of the CPU, other virtual machines %.0f %%\n",
                           100 * quiet["busy"].get<double>(), 100 * quiet["steal"].get<double>());
  }
}

}  // namespace

void PrintTables(const Json& figures, std::ostream& out) {
  if (!figures["contestants"].empty()) PrintContestants(figures, out);
  if (figures.contains("disk")) {
    const Json& disk = figures["disk"];
    for (const Json& measured : disk["measured"]) {
      std::vector<Json> depths = Named(measured["depths"], "depth");
      for (Json& depth : depths) depth["name"] = measured["system"];
      Print("the disk by itself, 4 KiB reads at random", depths, kDepth, out);
    }
    if (disk.contains("memory"))
      Print("page cache included, no swap", Named(disk["memory"]["contestants"], "system"), kMemory,
            out);
  }
  if (figures.contains("load")) Print("load", Named(figures["load"], "system"), kLoad, out);
  PrintQuiet(figures, out);
}

}  // namespace hmann
