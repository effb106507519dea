#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/adapters/asked_dials.h"
#include "eval/load.h"
#include "eval/results.h"
#include "index/base/file.h"
#include "index/base/machine_load.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::pair<const char*, double> kShares[] = {
    {"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"max_us", 1}};

void AddFigures(const LoadOptions& load, const LoadReport& report, Json* line) {
  Json& to = *line;
  const auto per_request = [&](double cpu_seconds) {
    return RoundToDecimals(1e6 * cpu_seconds / static_cast<double>(report.offered), 1);
  };
  const auto answered = static_cast<double>(report.latency_us.size());
  to["rate"] = load.rate;
  to["batch"] = load.batch;
  to["offered"] = report.offered;
  to["answered"] = report.latency_us.size();
  to["queries_per_second"] =
      RoundToDecimals(answered * static_cast<double>(load.batch) / report.seconds, 1);
  for (const auto& [name, share] : kShares) {
    to[name] = nullptr;
    if (!report.latency_us.empty())
      to[name] = RoundToDecimals(Percentile(report.latency_us, share), 1);
  }
  to["client_cpu_us"] = per_request(report.client_cpu_seconds);
  if (load.server_pid != 0) to["server_cpu_us"] = per_request(report.server_cpu_seconds);
  to["failed"] = Json::object();
  for (const auto& [code, count] : report.ended)
    if (code != absl::StatusCode::kOk) to["failed"][absl::StatusCodeToString(code)] = count;
}

/// A run; once more, if others disturbed it.
absl::StatusOr<Json> RunOnce(const VectorFile& queries, const LoadOptions& load,
                             const Json& setting, int round) {
  for (int attempt = 0;; ++attempt) {
    const MachineLoad machine({load.server_pid});
    HMANN_ASSIGN_OR_RETURN(const LoadReport report, OfferLoad(queries, load));
    OthersShare others = machine.Others();
    if (load.server_pid == 0) others.busy = 0;  // the server may be one of them
    if (!others.quiet() && attempt == 0) continue;
    Json line = {{"kind", "run"},
                 {"system", absl::StrCat(load.index, " at ", load.server)},
                 {"place",
                  {{"server", load.server},
                   {"connections", load.connections},
                   {"call", load.empty    ? "empty"
                            : load.stream ? "stream"
                                          : "search"}}},
                 {"setting", setting},
                 {"round", round}};
    AddFigures(load, report, &line);
    line["others_busy"] = others.busy;
    line["others_steal"] = others.steal;
    if (!others.quiet()) line["noisy"] = true;
    return line;
  }
}

}  // namespace

absl::StatusOr<std::vector<Json>> RunLoad(const LoadBenchmark& benchmark, const Say& say) {
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(benchmark.queries));
  HMANN_RETURN_IF_ERROR(queries.FitQueries(queries.dim(), queries.dtype(), "the file itself"));
  Benchmark named;
  named.title = "Load";
  named.rounds = benchmark.rounds;
  named.targets.clear();
  named.reference.clear();
  named.job.queries = benchmark.queries;
  std::vector<Json> lines = {HeadLine(named, {{"queries", benchmark.queries},
                                              {"dim", queries.dim()},
                                              {"dtype", std::string(Name(queries.dtype()))},
                                              {"k", benchmark.load.search.k},
                                              {"query_count", queries.n()}})};
  LoadOptions load = benchmark.load;
  for (int round = 0; round < benchmark.rounds; ++round) {
    for (const Json& setting : benchmark.settings) {
      HMANN_ASSIGN_OR_RETURN(load.search, AskedDials(setting));
      if (!setting.contains("k")) load.search.k = benchmark.load.search.k;
      for (const double rate : benchmark.rates) {
        if (benchmark.cancelled != nullptr && benchmark.cancelled->load())
          return absl::CancelledError("cancelled");
        load.rate = rate;
        HMANN_ASSIGN_OR_RETURN(Json line, RunOnce(queries, load, setting, round));
        lines.push_back(std::move(line));
        say(absl::StrFormat("  %g requests a second: done", rate));
      }
    }
  }
  if (benchmark.folder.empty()) return lines;
  std::error_code error;
  std::filesystem::create_directories(benchmark.folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", benchmark.folder);
  HMANN_RETURN_IF_ERROR(WriteResults(benchmark.folder + "/results.jsonl", lines));
  return lines;
}

}  // namespace hmann
