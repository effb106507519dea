#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "hmann/client.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/commands.h"
#include "tools/connect_flags.h"
#include "tools/flags.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

using Json = nlohmann::ordered_json;

struct AdminFlags {
  std::string server, index, path, queries, gateway;
  std::uint64_t rows = 0;
  std::uint32_t k = 10;
  client::ConnectOptions connect;
  client::LoadOptions load;
  client::Probe probe;
  client::CallOptions call{.deadline = std::chrono::hours(1)}, probe_call;
  std::vector<std::string> agents;
  std::optional<std::uint64_t> expected;
  bool json = false;
};

/// Prints "key value, key value".
void PrintLine(const Json& object) {
  std::vector<std::string> words;
  for (const auto& [key, value] : object.items()) {
    words.push_back(
        absl::StrCat(key, " ", value.is_string() ? value.get<std::string>() : JsonText(value)));
  }
  std::cout << absl::StrJoin(words, ", ") << '\n';
}

std::string HashText(std::uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

absl::Status ShowLoaded(const AdminFlags& flags, const absl::StatusOr<client::Loaded>& loaded) {
  HMANN_RETURN_IF_ERROR(loaded.status());
  const Json json = {{"index", flags.index},
                     {"generation", loaded->generation},
                     {"content_hash", HashText(loaded->content_hash)},
                     {"seconds", loaded->seconds}};
  if (flags.json) return PrintJson(json);
  PrintLine(json);
  return absl::OkStatus();
}

Json ToJson(const client::IndexStatus& status) {
  constexpr const char* kStates[] = {"unknown", "loading", "serving", "failed"};
  Json json = {{"index", status.name},
               {"state", kStates[static_cast<std::size_t>(status.state)]},
               {"path", status.path},
               {"swaps", status.swaps},
               {"refused_loads", status.refused_loads}};
  if (status.generation > 0) {
    json["generation"] = status.generation;
    json["content_hash"] = HashText(status.content_hash);
    json["n"] = status.n;
    json["dim"] = status.dim;
    json["load_seconds"] = status.load_seconds;
  }
  if (const auto& live = status.collection; live.has_value()) {
    json["collection"] = {{"sequence", live->sequence},
                          {"delta_rows", live->delta_rows},
                          {"delta_bytes", live->delta_bytes},
                          {"dead_rows", live->dead_rows},
                          {"journal_bytes", live->journal_bytes},
                          {"unmerged_seconds", live->unmerged_seconds},
                          {"merges", live->merges},
                          {"merge_seconds", live->merge_seconds}};
    if (!live->merge_phase.empty()) {
      json["collection"]["merging"] = {{"seconds", live->merging_seconds},
                                       {"phase", live->merge_phase},
                                       {"done", live->merge_done},
                                       {"total", live->merge_total}};
    }
    if (live->behind_seconds.has_value())
      json["collection"]["behind_seconds"] = *live->behind_seconds;
    if (!live->last_error.empty()) json["collection"]["last_error"] = live->last_error;
  }
  if (!status.reason.empty()) json["reason"] = status.reason;
  if (!status.refusal.empty()) json["refusal"] = status.refusal;
  if (const auto& loading = status.loading; loading.has_value()) {
    json["loading"] = {{"path", loading->path},   {"seconds", loading->seconds},
                       {"phase", loading->phase}, {"done", loading->done},
                       {"total", loading->total}, {"unit", loading->unit},
                       {"share", loading->share}};
  }
  return json;
}

absl::Status ShowStatus(const AdminFlags& flags, client::Client& server) {
  HMANN_ASSIGN_OR_RETURN(const std::vector<client::IndexStatus> all,
                         server.Status(flags.index, flags.call));
  Json list = Json::array();
  for (const client::IndexStatus& one : all) list.push_back(ToJson(one));
  if (flags.json) return PrintJson({{"indexes", list}});
  for (const Json& one : list) PrintLine(one);
  return absl::OkStatus();
}

/// Asks for one query as clients do, and exactly, of the same file.
absl::Status AskTwice(const AdminFlags& flags, const client::Vectors& query, client::Client& server,
                      client::Answer* served, client::Answer* exact) {
  do {  // again after a swap
    HMANN_ASSIGN_OR_RETURN(*served, server.Search(flags.index, query, {.k = flags.k}, flags.call));
    HMANN_ASSIGN_OR_RETURN(*exact,
                           server.ExactSearch(flags.index, query, {.k = flags.k}, flags.call));
  } while (served->generation != exact->generation);
  return absl::OkStatus();
}

absl::Status ShowCheck(const AdminFlags& flags, client::Client& server) {
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(flags.queries, flags.rows));
  HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index,
                         server.Describe(flags.index, flags.call));
  HMANN_RETURN_IF_ERROR(
      queries.FitQueries(index.dim, index.dtype, absl::StrCat("index '", index.name, "'")));
  std::vector<double> recalls;
  client::Answer served, exact;
  for (std::uint64_t i = 0; i < queries.n(); ++i) {
    const client::Vectors query = client::Vectors::Raw({queries.Row(i), queries.row_bytes()});
    HMANN_RETURN_IF_ERROR(AskTwice(flags, query, server, &served, &exact));
    const GroundTruth truth{.n = 1,
                            .k = static_cast<std::uint32_t>(exact.ids.size()),
                            .ids = exact.ids,
                            .distances = exact.distances,
                            .metric = index.metric};
    recalls.push_back(RecallAtK(truth, 0, truth.k, served.ids, served.distances));
  }
  const RecallSummary recall = SummarizeRecall(std::move(recalls));
  const Json json = {{"index", flags.index},   {"generation", served.generation},
                     {"queries", queries.n()}, {"k", flags.k},
                     {"recall", recall.mean},  {"recall_p05", recall.p05}};
  if (flags.json) return PrintJson(json);
  PrintLine(json);
  return absl::OkStatus();
}

/// Fails if the gateway does not find the vector `id`, which the agent has.
absl::Status CheckAsked(const AdminFlags& flags, const std::string& agent, const std::string& id) {
  HMANN_ASSIGN_OR_RETURN(client::Client gateway,
                         client::Client::Connect(flags.gateway, flags.connect));
  const absl::Status found = gateway.FindVald(id, flags.probe_call);
  if (absl::IsNotFound(found)) {
    return FailedPrecondition("the gateway does not ask ", agent, ": it does not find id ", id,
                              " of it; is its agent_dns the name of all agents?");
  }
  if (found.ok()) return found;
  return {found.code(), absl::StrCat(flags.gateway, ": ", found.message())};
}

/// Counts the vectors behind a gateway of Vald, or of agents, and compares their shapes.
absl::Status ShowShards(const AdminFlags& flags) {
  client::ValdIndex all;
  for (const std::string& agent : flags.agents) {
    HMANN_ASSIGN_OR_RETURN(client::Client server, client::Client::Connect(agent, flags.connect));
    absl::StatusOr<client::ValdIndex> one = server.DescribeVald(flags.probe_call);
    if (!one.ok()) return {one.status().code(), absl::StrCat(agent, ": ", one.status().message())};
    all.vectors += one->vectors;
    all.shapes.merge(one->shapes);
    if (!flags.gateway.empty() && !one->id.empty())
      HMANN_RETURN_IF_ERROR(CheckAsked(flags, agent, one->id));
  }
  const std::string shapes = absl::StrJoin(all.shapes, "; ");
  if (all.shapes.size() > 1) return FailedPrecondition("the shards are not alike: ", shapes);
  if (flags.expected.has_value() && all.vectors != *flags.expected) {
    return FailedPrecondition(all.vectors, " vectors found, expected ", *flags.expected,
                              ": is a shard missing?");
  }
  const Json json = {{"vectors", all.vectors}, {"shape", shapes}};
  if (flags.json) return PrintJson(json);
  PrintLine(json);
  return absl::OkStatus();
}

/// Declares what loads have in common: INDEX and the options of a probe.
void AddLoadFlags(CLI::App& app, AdminFlags* flags) {
  app.add_option("INDEX", flags->index, "name of the index on the server")->required();
  CLI::Option* const queries =
      app.add_option("--probe", flags->probe.queries,
                     "vector file on the server: search for these before the flip");
  CLI::Option* const truth = app.add_option("--groundtruth", flags->probe.groundtruth,
                                            "their exact neighbors: file on the server");
  queries->needs(truth);
  truth->needs(queries);
  app.add_option("--k", flags->probe.k, "neighbors of a query")->needs(queries);
  app.add_option("--recall", flags->probe.recall, "refuse the file below this recall")
      ->needs(queries)
      ->check(CLI::Range(0.0, 1.0));
  AddParsed(app, "--p99", ParseDuration, &flags->probe.p99,
            "refuse the file if one of 100 queries takes longer")
      ->needs(queries);
}

void AddShards(CLI::App& app, AdminFlags* flags) {
  CLI::App* const sub = app.add_subcommand(
      "shards", "count the vectors behind Vald; fail if a shard is missing or unlike");
  sub->add_option("AGENTS", flags->agents,
                  "HOST:PORT of a gateway of Vald v1.8, or of each agent, with commas between")
      ->delimiter(',')
      ->required();
  AddConnectFlags(*sub, &flags->connect);
  AddParsed(*sub, "--deadline", ParseDuration, &flags->probe_call.deadline,
            "how long to wait for each (default 10s)");
  sub->add_option("--expect", flags->expected, "vectors of all shards together");
  sub->add_option("--gateway", flags->gateway,
                  "fail if this gateway does not ask one of the agents");
  sub->add_flag("--json", flags->json, "print one JSON object on stdout");
}

}  // namespace

CommandAction SetupAdmin(CLI::App& app) {
  using Run = std::function<absl::Status(const AdminFlags&, client::Client&)>;
  auto flags = std::make_shared<AdminFlags>();
  auto chosen = std::make_shared<Run>();
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* summary, const Run& run) {
    CLI::App* const sub = app.add_subcommand(name, summary);
    sub->add_option("SERVER", flags->server, "HOST:PORT of a running `hmann serve`")->required();
    AddConnectFlags(*sub, &flags->connect);
    AddParsed(*sub, "--deadline", ParseDuration, &flags->call.deadline,
              "how long to wait; a load goes on (default 3600s)");
    sub->add_flag("--json", flags->json, "print one JSON object on stdout");
    sub->callback([chosen, run] { *chosen = run; });
    return sub;
  };
  const auto add_index = [&](CLI::App* sub) {
    return sub->add_option("INDEX", flags->index, "name of the index on the server");
  };
  CLI::App* sub =
      add("load", "serve FILE under the new name INDEX", [](const AdminFlags& f, auto& server) {
        return ShowLoaded(f, server.Load(f.index, f.path, f.load, f.call, f.probe));
      });
  AddLoadFlags(*sub, flags.get());
  sub->add_option("FILE", flags->path, "index file on the server")->required();
  sub->add_option("--fast", flags->load.fast, "as of `hmann serve` (default: what it was given)");
  sub->add_option("--slow", flags->load.slow, "as of `hmann serve` (default: what it was given)");
  sub->add_option("--cache", flags->load.cache, "as of `hmann serve` (default: what it was given)");
  AddParsed(*sub, "--cache-size", ParseSize, &flags->load.cache_bytes, "size of that cache");
  sub->add_option("--sq", flags->load.sq_bits, "as of `hmann serve` (default: what it was given)")
      ->check(CLI::IsMember({0, 4, 8}));
  sub = add("swap", "serve FILE instead of the file that is served as INDEX",
            [](const AdminFlags& f, auto& server) {
              return ShowLoaded(f, server.Swap(f.index, f.path, f.call, f.probe));
            });
  AddLoadFlags(*sub, flags.get());
  sub->add_option("FILE", flags->path,
                  "index file on the server (default: what lies now under the path served)");
  sub = add("unload", "serve INDEX no more",
            [](const AdminFlags& f, auto& server) { return server.Unload(f.index, f.call); });
  add_index(sub)->required();
  add_index(add("status", "show what is served and what is being loaded", ShowStatus));
  sub = add("check", "show how many of the exact nearest neighbors the served defaults find",
            ShowCheck);
  add_index(sub)->required();
  sub->add_option("QUERIES", flags->queries, "vector file: search for each, and exactly")
      ->required();
  sub->add_option("--k", flags->k, "neighbors of a query")->capture_default_str();
  sub->add_option("--rows", flags->rows, "only the first of the queries (default: all)");
  add("drain", "report NOT_SERVING and close the port; open connections are still answered",
      [](const AdminFlags& f, auto& server) { return server.Drain(f.call); });
  AddShards(app, flags.get());
  return [flags, chosen]() -> absl::Status {
    if (!flags->agents.empty()) return ShowShards(*flags);
    HMANN_ASSIGN_OR_RETURN(client::Client server,
                           client::Client::Connect(flags->server, flags->connect));
    return (*chosen)(*flags, server);
  };
}

}  // namespace hmann::tools
