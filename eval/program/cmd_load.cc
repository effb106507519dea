#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/columns.h"
#include "eval/load.h"
#include "eval/program/eval_flags.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/connect_flags.h"
#include "tools/flags.h"
#include "tools/print.h"
#include "tools/query_report.h"

namespace hmann {
namespace {

struct LoadFlags {
  LoadOptions load;
  std::string queries;
  std::vector<double> rates = {100};
  bool json = false;
};

constexpr std::pair<const char*, double> kShares[] = {
    {"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"max_us", 1}};

nlohmann::ordered_json Figures(const LoadOptions& load, const LoadReport& report) {
  const auto per_request = [&](double cpu_seconds) {
    return RoundToDecimals(1e6 * cpu_seconds / static_cast<double>(report.offered), 1);
  };
  const auto answered = static_cast<double>(report.latency_us.size());
  nlohmann::ordered_json figures = {{"rate", load.rate},
                                    {"batch", load.batch},
                                    {"offered", report.offered},
                                    {"answered", report.latency_us.size()}};
  figures["queries_per_second"] =
      RoundToDecimals(answered * static_cast<double>(load.batch) / report.seconds, 1);
  for (const auto& [name, share] : kShares) {
    figures[name] = nullptr;
    if (!report.latency_us.empty())
      figures[name] = RoundToDecimals(Percentile(report.latency_us, share), 1);
  }
  figures["client_cpu_us"] = per_request(report.client_cpu_seconds);
  if (load.server_pid != 0) figures["server_cpu_us"] = per_request(report.server_cpu_seconds);
  nlohmann::ordered_json failed = nlohmann::ordered_json::object();
  for (const auto& [code, count] : report.ended) {
    if (code != absl::StatusCode::kOk) failed[absl::StatusCodeToString(code)] = count;
  }
  figures["failed"] = failed;
  return figures;
}

void Print(const std::vector<nlohmann::ordered_json>& rows) {
  std::vector<std::vector<std::string>> cells = {{"requests a second"}};
  for (const auto& [name, value] : rows.front().items()) {
    if (name != "rate") cells[0].push_back(name);
  }
  for (const nlohmann::ordered_json& row : rows) {
    cells.emplace_back();
    for (const auto& [name, value] : row.items())
      cells.back().push_back(value.is_null() ? "-" : value.dump());
  }
  PrintColumns(cells, 0, std::cout);
}

absl::Status RunLoad(LoadFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(flags.queries));
  HMANN_RETURN_IF_ERROR(queries.FitQueries(queries.dim(), queries.dtype(), "the file itself"));
  std::vector<nlohmann::ordered_json> rows;
  for (const double rate : flags.rates) {
    flags.load.rate = rate;
    HMANN_ASSIGN_OR_RETURN(const LoadReport report, OfferLoad(queries, flags.load));
    rows.push_back(Figures(flags.load, report));
    if (!flags.json) std::cerr << absl::StrFormat("  %g requests a second: done\n", rate);
  }
  if (flags.json) return PrintJson({{"load", rows}});
  Print(rows);
  return absl::OkStatus();
}

}  // namespace

EvalCommand SetupEvalLoad(CLI::App& eval) {
  auto flags = std::make_shared<LoadFlags>();
  LoadOptions* load = &flags->load;
  CLI::App* app = eval.add_subcommand(
      "load",
      "What a server answers when requests arrive at random times, whether or not it keeps up: "
      "latencies from the arrival on, what is refused or late, CPU time");
  app->add_option("--server", load->server, "HOST:PORT or unix:PATH of a running `hmann serve`")
      ->required();
  app->add_option("--index", load->index, "name of the index on the server")->required();
  app->add_option("--queries", flags->queries, "vector file of the index's type and dimension")
      ->required();
  AddConnectFlags(*app, &load->connect);
  app->add_option("--rate", flags->rates, "requests a second, one run of each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddParsed<std::chrono::nanoseconds>(
      *app, "--time", ParseDuration, [load](std::chrono::nanoseconds time) { load->time = time; },
      "that requests arrive for (default: 10s)");
  AddParsed<std::chrono::nanoseconds>(
      *app, "--deadline", ParseDuration,
      [load](std::chrono::nanoseconds deadline) { load->deadline = deadline; },
      "of a request, from its arrival (default: 1s)");
  app->add_option("--batch", load->batch, "queries of a request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_flag("--stream", load->stream, "one SearchStream of each connection, instead of calls")
      ->excludes("--batch");
  app->add_flag("--empty", load->empty, "calls that search nothing: what a call costs by itself");
  app->add_option("--connections", load->connections, "that requests take in turn")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--server-pid", load->server_pid,
                  "process of the server, on this machine: its CPU time a request")
      ->check(CLI::Range(1, 1 << 30));
  app->add_option("--seed", load->seed, "of the times")->capture_default_str();
  app->add_option("--k", load->search.k, "neighbours per query")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  AddDials(*app, &load->search);
  app->add_flag("--json", flags->json, "the figures as one JSON object on stdout");
  app->footer(
      "Example:\n  hmann eval load --server 127.0.0.1:50051 --index sift --queries q.u8bin "
      "--rate 500,1000,2000");
  return {app, [flags] { return RunLoad(*flags); }};
}

}  // namespace hmann
