#include <memory>
#include <utility>

#include "eval/load.h"
#include "eval/program/flags.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/connect_flags.h"
#include "tools/flags.h"

namespace hmann::eval {
namespace {

struct LoadFlags : EvalFlags {
  LoadOptions load;
};

absl::Status RunLoadCommand(LoadFlags& flags) {
  LoadOptions& load = flags.load;
  const std::vector<std::string> texts = std::exchange(flags.settings, {});
  if (!texts.empty()) load.settings = Json::array();
  for (const std::string& text : texts) {
    HMANN_ASSIGN_OR_RETURN(const auto named, NamedJson(text, "--settings", Json::value_t::array));
    if (named.first != load.index)
      return InvalidArgument("--settings: expected ", load.index, "=[...], found '", text, "'");
    load.settings.insert(load.settings.end(), named.second.begin(), named.second.end());
  }
  return flags.Run([&load](const Benchmark& benchmark, Progress&, const Say& say) {
    return RunLoad(load, benchmark, say);
  });
}

}  // namespace

EvalCommand SetupEvalLoad(CLI::App& eval) {
  auto flags = std::make_shared<LoadFlags>();
  LoadOptions* load = &flags->load;
  Benchmark* benchmark = &flags->benchmark;
  benchmark->rounds = 1;
  CLI::App* app = eval.add_subcommand(
      "load",
      "Measure a server under requests at random times, whether or not it keeps up: latency from "
      "arrival, refused and late requests, CPU time");
  app->add_option("--server", load->server, "HOST:PORT or unix:PATH of a running `hmann serve`")
      ->required();
  app->add_option("--server-index", load->index, "name of the index on the server")->required();
  app->add_option("--queries", benchmark->job.queries,
                  "vector file of the index's type and dimension")
      ->required();
  tools::AddConnectFlags(*app, &load->connect);
  app->add_option("--rate", load->rates, "requests per second, one run each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tools::AddParsed(*app, "--time", ParseDuration, &load->time,
                   "period in which requests arrive (default: 10s)");
  tools::AddParsed(*app, "--deadline", ParseDuration, &load->deadline,
                   "deadline of a request, from its arrival (default: 1s)");
  app->add_option("--batch", load->batch, "queries per request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_flag("--stream", load->stream, "use one SearchStream per connection instead of calls")
      ->excludes("--batch");
  app->add_option("--connections", load->connections, "connections that requests use in turn")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--server-pid", load->server_pid,
                  "the server's process on this machine, to measure its CPU time per request")
      ->check(CLI::Range(1, 1 << 30));
  app->add_option("--settings", flags->settings,
                  "INDEX=[{...}]: parameters, as `hmann search --json` names them, one run each");
  app->add_option("--k", load->k, "neighbors per query")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--rounds", benchmark->rounds, "runs of every rate")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  flags->AddOut(*app,
                "--server 127.0.0.1:50051 --server-index sift --queries q.u8bin --rate "
                "500,1000,2000",
                false);
  app->get_option("--out")->description("folder for results.jsonl and report.html");
  return {app, [flags] { return RunLoadCommand(*flags); }};
}

}  // namespace hmann::eval
