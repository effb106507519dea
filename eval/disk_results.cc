#include "eval/disk_results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/columns.h"
#include "eval/results.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr double kBlockBytes = 4096;

Json DiskJson(const DiskFigures& disk) {
  Json depths = Json::array();
  for (const DepthFigures& at : disk.depths) {
    depths.push_back({{"depth", at.depth},
                      {"iops", at.iops},
                      {"mean_us", at.latency.mean},
                      {"p50_us", at.latency.p50},
                      {"p99_us", at.latency.p99},
                      {"reads", at.reads}});
  }
  return {{"path", disk.path},
          {"tier", disk.tier},
          {"blocks", disk.blocks},
          {"threads", disk.threads},
          {"depths", depths}};
}

double MostIops(const DiskSweepResult& result) {
  double most = 0;
  for (const DiskFigures& disk : result.disks) most = std::max(most, disk.most_iops());
  return most;
}

Json LimitJson(const DiskSweepResult& result) {
  return {{"limit_bytes", result.memory_limit},
          {"limit_given", result.limit_given},
          {"index_file_bytes", result.memory.empty() ? 0 : result.memory[0].index_file_bytes},
          {"cgroup_version", result.cgroup_version}};
}

int Shape(const ContestantFigures& row, const char* key) {
  return row.points[0].setting.value(key, 1);
}

/// One contestant in one shape, at one target.
Json RowJson(const ContestantFigures& row, std::size_t target, std::uint32_t at,
             const Reading& reading, double most_iops) {
  const TargetFigures& figures = row.targets[target];
  const auto counter = [&](const char* name) {
    return OrNull(CounterAtRecall(row, name, figures.target, reading));
  };
  const auto observed = [&](const char* name) {
    return ObservedAtRecall(row, name, figures.target, reading);
  };
  const std::optional<double> bytes = observed("read_bytes");
  const std::optional<double> blocks = bytes ? std::optional(*bytes / kBlockBytes) : std::nullopt;
  Json share = nullptr;
  if (blocks && figures.qps && most_iops > 0) share = *blocks * *figures.qps / most_iops;
  return {{"at", at},
          {"target", figures.target},
          {"contestant", row.name},
          {"threads", Shape(row, "threads")},
          {"in_flight", Shape(row, "in_flight")},
          {"qps", OrNull(figures.qps)},
          {"qps_mad", OrNull(figures.qps_mad)},
          {"at_recall", OrNull(figures.at_recall)},
          {"ratio", OrNull(figures.ratio)},
          {"ratio_mad", OrNull(figures.ratio_mad)},
          {"mean_us", OrNull(observed("mean_us"))},
          {"p99_us", OrNull(observed("p99_us"))},
          {"cpu_us", OrNull(observed("cpu_us"))},
          {"slow_reads", counter("slow_reads")},
          {"slow_bytes", counter("slow_bytes")},
          {"rounds", counter("rounds")},
          {"io_reads", counter("io_reads")},
          {"blocks", OrNull(blocks)},
          {"disk_share", share}};
}

/// All rows of recall@at. Each contestant is held against the reference with as many
/// threads, one query at a time.
void AddRows(const std::vector<ContestantRuns>& runs, const std::vector<double>& targets,
             std::uint32_t at, const DiskSweepResult& result, Json* rows) {
  Reading reading = result.sweep.reading;
  reading.k = at;
  reading.targets = targets;
  std::vector<std::pair<ContestantFigures, Reading>> read;
  for (const ContestantRuns& run : runs) {
    const auto rival = std::find_if(runs.begin(), runs.end(), [&](const ContestantRuns& other) {
      return other.name.starts_with(result.reference + ", ") &&
             other.settings[0].setting.value("threads", 1) ==
                 run.settings[0].setting.value("threads", 1);
    });
    reading.reference = rival == runs.end() ? "" : rival->name;
    std::vector<ContestantRuns> pair = {run};
    if (rival != runs.end() && rival->name != run.name) pair.push_back(*rival);
    read.emplace_back(Read(pair, reading)[0], reading);
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (const auto& [row, its_reading] : read)
      rows->push_back(RowJson(row, t, at, its_reading, MostIops(result)));
  }
}

std::string Cell(const Json& value, const char* format) {
  if (value.is_null()) return "-";
  return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), value.get<double>());
}

/// "52300 +-410", "3.21x +-0.05": two decimals below 100, more where there is little.
std::string MeanCell(const Json& row, const char* value, const char* mad, const char* unit) {
  if (row[value].is_null() || row[mad].is_null()) return "-";
  const double mean = row[value].get<double>();
  const int digits = mean >= 100 ? 0 : mean >= 1 ? 2 : 4;
  return absl::StrFormat("%.*f%s +-%.*f", digits, mean, unit, digits, row[mad].get<double>());
}

void PrintDisk(const Json& disk, std::ostream& out) {
  std::vector<std::vector<std::string>> cells(1);
  cells[0] = {"4 KiB random reads in flight"};
  for (const Json& at : disk["measured"][0]["depths"])
    cells[0].push_back(absl::StrCat(at["depth"].get<int>()));
  for (const Json& measured : disk["measured"]) {
    const int threads = measured["threads"].get<int>();
    const std::string who = absl::StrCat(", ", threads, threads == 1 ? " thread" : " threads");
    for (const auto& [title, key] :
         {std::pair("reads per second", "iops"), {"mean us", "mean_us"}, {"p99 us", "p99_us"}}) {
      cells.push_back({title + who});
      for (const Json& at : measured["depths"]) cells.back().push_back(Cell(at[key], "%.0f"));
    }
  }
  const Json& first = disk["measured"][0];
  out << absl::StrFormat("The disk by itself: %s through tier %s, O_DIRECT\n",
                         first["path"].get<std::string>(), first["tier"].get<std::string>());
  PrintColumns(cells, 1, out);
  const Json& alone = first["depths"][0];
  out << absl::StrFormat(
      "  with %d in flight: mean %.1f us, p99 %.1f us; the limit below: %.0f reads/s\n",
      alone["depth"].get<int>(), alone["mean_us"].get<double>(), alone["p99_us"].get<double>(),
      disk["most_iops"].get<double>());
}

void PrintMemory(const Json& memory, std::ostream& out) {
  out << absl::StrFormat(
      "Memory of each contestant: %s%s; page cache included, no swap (cgroup v%d)\n",
      FormatSize(memory["limit_bytes"].get<std::uint64_t>()),
      memory["limit_given"].get<bool>() ? "" : ", a quarter of hmann's index file and 64 MiB",
      memory["cgroup_version"].get<int>());
  std::vector<std::vector<std::string>> cells = {
      {"contestant", "index file", "limit", "own memory, loaded", "peak"}};
  for (const Json& one : memory["contestants"]) {
    cells.push_back({one["contestant"].get<std::string>()});
    for (const char* key : {"index_file_bytes", "limit_bytes", "loaded_bytes", "peak_bytes"}) {
      cells.back().push_back(FormatSize(one[key].get<std::uint64_t>()));
    }
  }
  PrintColumns(cells, 1, out);
  for (const Json& one : memory["contestants"]) {
    if (one["index_file_bytes"].get<std::uint64_t>() > one["limit_bytes"].get<std::uint64_t>())
      continue;
    out << absl::StrFormat(
        "  the limit holds all of %s's index file: through the page cache, that is no search on a "
        "disk\n",
        one["contestant"].get<std::string>());
  }
}

}  // namespace

std::vector<Json> DiskNotes(const DiskSweepResult& result) {
  std::vector<Json> notes;
  for (const DiskFigures& disk : result.disks) {
    notes.push_back({{"kind", "disk"}});
    notes.back().update(DiskJson(disk));
  }
  notes.push_back({{"kind", "memory"}});
  notes.back().update(LimitJson(result));
  return notes;
}

Json ToJson(const DiskSweepResult& result) {
  Json figures = ToJson(result.sweep);
  const std::string base = BaseName(figures["data"]);
  figures["title"] = absl::StrCat("Search on a disk: ", base.substr(base.rfind('/') + 1));
  for (Json& contestant : figures["contestants"]) {
    const std::string name = contestant["name"].get<std::string>();
    contestant["program"] = name.substr(0, name.find(','));  // its shapes share an index
  }
  Json measured = Json::array(), rows = Json::array(), contestants = Json::array();
  for (const DiskFigures& disk : result.disks) measured.push_back(DiskJson(disk));
  for (const LimitedMemory& memory : result.memory) {
    contestants.push_back({{"contestant", memory.contestant},
                           {"index_file", memory.index_file},
                           {"index_file_bytes", memory.index_file_bytes},
                           {"limit_bytes", memory.limit_bytes},
                           {"loaded_bytes", memory.loaded_bytes},
                           {"peak_bytes", memory.peak_bytes}});
  }
  std::vector<ContestantRuns> by_first;
  for (const ContestantRuns& run : result.sweep.runs) by_first.push_back(ByFirstAnswer(run));
  AddRows(by_first, result.targets_at_1, 1, result, &rows);
  AddRows(result.sweep.runs, result.sweep.reading.targets, result.sweep.reading.k, result, &rows);
  Json memory = LimitJson(result);
  memory["contestants"] = contestants;
  figures["disk"] = {{"measured", measured},
                     {"most_iops", MostIops(result)},
                     {"memory", memory},
                     {"reference", result.reference},
                     {"rows", rows}};
  return figures;
}

void PrintDiskTables(const Json& figures, std::ostream& out) {
  const Json& disk = figures["disk"];
  PrintDisk(disk, out);
  PrintMemory(disk["memory"], out);
  out << DataLine(figures)
      << ", their median, closed loop; per query: records, bytes and rounds as hmann counts "
         "them, 4 KiB blocks as the kernel does\n";
  std::vector<std::vector<std::string>> cells = {
      {"recall", "search", "QPS", "x " + disk["reference"].get<std::string>(), "mean us", "p99 us",
       "CPU us", "I/Os", "records", "bytes", "rounds", "blocks", "of the disk"}};
  bool above = false;
  for (const Json& row : disk["rows"]) {
    const bool starred = !row["at_recall"].is_null() &&
                         row["at_recall"].get<double>() > row["target"].get<double>() + 1e-12;
    above = above || starred;
    cells.push_back({absl::StrFormat("@%d %g%s", row["at"].get<int>(), row["target"].get<double>(),
                                     starred ? "*" : ""),
                     row["contestant"].get<std::string>(), MeanCell(row, "qps", "qps_mad", ""),
                     MeanCell(row, "ratio", "ratio_mad", "x"), Cell(row["mean_us"], "%.0f"),
                     Cell(row["p99_us"], "%.0f"), Cell(row["cpu_us"], "%.0f"),
                     Cell(row["io_reads"], "%.1f"), Cell(row["slow_reads"], "%.1f"),
                     Cell(row["slow_bytes"], "%.0f"), Cell(row["rounds"], "%.1f"),
                     Cell(row["blocks"], "%.1f"),
                     row["disk_share"].is_null()
                         ? "-"
                         : absl::StrFormat("%.0f %%", 100 * row["disk_share"].get<double>())});
  }
  PrintColumns(cells, 2, out);
  if (above) out << "  * the lowest recall that was measured lies above this target\n";
}

}  // namespace hmann
