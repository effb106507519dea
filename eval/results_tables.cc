#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "eval/results.h"
#include "hmann/machine_load.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

std::string Number(double shown) {
  const double size = std::abs(shown);
  const int digits = size >= 100 || shown == std::floor(shown) ? 0 : size >= 1 ? 2 : 4;
  return absl::StrFormat("%.*f", digits, shown);
}
std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

/// The end of its name tells shares, times and sizes apart.
std::string Shown(const std::string& key, const Json& value) {
  if (!value.is_number()) return Text(value);
  const auto number = value.get<double>();
  if (key.starts_with("of_") || key.ends_with("_share"))
    return absl::StrFormat("%.0f %%", 100 * number);
  if (key.ends_with("_seconds")) return FormatDuration(number);
  if (key.ends_with("_bytes") && key != "node_bytes") return FormatSize(value.get<std::uint64_t>());
  return Number(number);
}

using Keys = std::vector<std::string>;
const Keys kTarget = {
    "vectors",     "fast_a_vector",      "qps",        "qps_mad", "ratio",    "ratio_mad",
    "of_all_dram", "of_without_latency", "mean_us",    "p99_us",  "cpu_us",   "distances",
    "estimates",   "node_reads",         "node_bytes", "hops",    "io_reads", "blocks",
    "lines",       "of_limit",           "disk_share"};
const Keys kBuild = {
    "vectors",    "library",     "build_seconds", "build_cpu_seconds", "peak_anonymous_bytes",
    "work_bytes", "index_bytes", "wall_over_cpu"};
const Keys kDepth = {"depth", "iops", "mean_us"};
const Keys kMemory = {"index_file_bytes", "limit_bytes", "loaded_bytes", "peak_bytes"};
const Keys kRunbook = {"target",         "recall", "least_recall",        "update_seconds",
                       "search_seconds", "merges", "peak_anonymous_bytes"};
const Keys kLoad = {
    "round",  "rate",   "batch",   "offered", "answered",      "queries_per_second", "p50_us",
    "p90_us", "p99_us", "p999_us", "max_us",  "client_cpu_us", "server_cpu_us",      "failed"};

/// One line per row: its `name`, and the columns that have a value in any row.
void Print(const std::string& title, const std::vector<Json>& rows, const Keys& keys,
           std::ostream& out) {
  std::vector<std::vector<std::string>> cells = {{title}};
  for (const Json& row : rows) cells.push_back({row["name"].get<std::string>()});
  for (const std::string& key : keys) {
    const auto says = [&](const Json& row) { return !row.value(key, Json()).is_null(); };
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const Json& row) { return says(row) && row[key] != 0; }))
      continue;
    cells[0].push_back(absl::StrReplaceAll(key, {{"_", " "}}));
    for (std::size_t i = 0; i < rows.size(); ++i)
      cells[i + 1].push_back(says(rows[i]) ? Shown(key, rows[i][key]) : "");
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

/// The rows of a table: each curve, and each mode of those that have several.
std::vector<Json> RowsOf(const Json& figures) {
  std::vector<Json> rows;
  for (const Json& row : figures["systems"]) {
    if (row["aside"].get<bool>() && row["kind"] != "measured") continue;
    rows.push_back(row);
    rows.back().erase("points");
    if (row["synthetic"].get<bool>())
      rows.back()["name"] = absl::StrCat(Text(row["name"]), ", synthetic");
    if (figures.contains("sizes")) rows.back()["vectors"] = row["data"];
    if (row["fast_bytes"].is_number())
      rows.back()["fast_a_vector"] = row["fast_bytes"].get<double>() / row["data"].get<double>();
  }
  return rows;
}

/// The rows with another key as the name.
std::vector<Json> Named(const Json& rows, const char* key) {
  std::vector<Json> named(rows.begin(), rows.end());
  for (Json& row : named) row["name"] = row[key];
  return named;
}

void PrintSystems(const Json& figures, std::ostream& out) {
  const Json& data = figures["data"];
  out << absl::StrFormat(
      "%s: %d x %s, %s; k = %d; median of %d round%s, %s time, %s%s\n",
      figures["title"].get<std::string>(), data["dim"].get<int>(), Text(data["dtype"]),
      Text(data["metric"]), data["k"].get<int>(), figures["rounds"].get<int>(),
      figures["rounds"] == 1 ? "" : "s", figures["clock"] == "cpu" ? "CPU" : "wall",
      figures["shapes"].empty() ? "one search thread" : "closed loop",
      figures["reference"].is_null() ? ""
                                     : absl::StrCat("; x: times ", Text(figures["reference"])));
  const std::vector<Json> shown = RowsOf(figures);
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
    out << absl::StrFormat("  noise: %s relative to itself at %g: ratio %.3f +-%.3f\n",
                           at["system"].get<std::string>(), at["recall"].get<double>(),
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
    const OthersShare others{quiet["steal"].get<double>(), quiet["busy"].get<double>()};
    out << "  " << others.Describe() << '\n';
  }
}

}  // namespace

void PrintTables(const Json& figures, std::ostream& out) {
  if (figures.contains("claims")) {
    for (const Json& claim : figures["claims"])
      out << absl::StrFormat("%-12s %s: %s\n             %s\n", Text(claim["verdict"]),
                             Text(claim["claim"]), Text(claim["paper"]), Text(claim["figure"]));
  }
  if (!figures["systems"].empty()) PrintSystems(figures, out);
  if (figures.contains("disk")) {
    const Json& disk = figures["disk"];
    for (const Json& measured : disk["measured"]) {
      std::vector<Json> depths = Named(measured["depths"], "depth");
      for (Json& depth : depths) depth["name"] = measured["system"];
      Print("the disk by itself, 4 KiB reads at random", depths, kDepth, out);
    }
    if (disk.contains("memory"))
      Print("page cache included, no swap", Named(disk["memory"]["systems"], "system"), kMemory,
            out);
  }
  if (figures.contains("runbooks"))
    Print("runbook", Named(figures["runbooks"], "system"), kRunbook, out);
  if (figures.contains("load")) Print("load", Named(figures["load"], "system"), kLoad, out);
  PrintQuiet(figures, out);
}

}  // namespace hmann::eval
