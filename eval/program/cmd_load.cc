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
      "What a server answers when requests arrive at random times, whether or not it keeps up: "
      "latencies from the arrival on, what is refused or late, CPU time");
  app->add_option("--server", load->server, "HOST:PORT or unix:PATH of a running `hmann serve`")
      ->required();
  app->add_option("--server-index", load->index, "name of the index there")->required();
  app->add_option("--queries", benchmark->job.queries,
                  "vector file of the index's type and dimension")
      ->required();
  tools::AddConnectFlags(*app, &load->connect);
  app->add_option("--rate", load->rates, "requests a second, one run of each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tools::AddParsed(*app, "--time", ParseDuration, &load->time,
                   "that requests arrive for (default: 10s)");
  tools::AddParsed(*app, "--deadline", ParseDuration, &load->deadline,
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
  app->add_option("--settings", flags->settings,
                  "INDEX=[{...}]: dials, as `hmann search --json` names them, a run of each");
  app->add_option("--k", load->k, "neighbours per query")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--rounds", benchmark->rounds, "times that every rate is run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  flags->AddOut(*app,
                "--server 127.0.0.1:50051 --server-index sift --queries q.u8bin --rate "
                "500,1000,2000",
                false);
  app->get_option("--out")->description("folder of results.jsonl and report.html");
  return {app, [flags] { return RunLoadCommand(*flags); }};
}

}  // namespace hmann::eval
