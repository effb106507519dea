#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "hmann/client.h"
#include "hmann/filter.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/commands.h"
#include "tools/connect_flags.h"
#include "tools/flags.h"
#include "tools/query_report.h"

namespace hmann::tools {
namespace {

struct QueryCallFlags {
  std::string server, index;
  client::ConnectOptions connect{.own_connection = true};
  std::uint32_t batch = 1;
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);
  /// For a server that was started a moment ago: a guess, unless there is a deadline.
  std::chrono::nanoseconds patience = std::chrono::seconds(1);
  QueryFlags query;
};

/// The connection of one client, and what its answers reported.
struct alignas(64) Connection {
  explicit Connection(client::Client connected) : server(std::move(connected)) {}
  client::Client server;
  Counters counters;
  ResolvedParams params;
  std::optional<client::Prediction> predicted;
  std::uint64_t cut_short = 0, matches = 0;
  std::vector<std::byte> rows;
};

/// Sends queries [first, first + count) in one request. The answers are concatenated.
absl::Status AskFor(const QueryCallFlags& flags, const VectorFile& queries, std::uint64_t first,
                    std::uint64_t count, Connection* connection, std::vector<Neighbor>* answer) {
  const SearchParams& options = flags.query.search;
  const client::CallOptions call{
      .deadline = flags.deadline, .counters = true, .filter = Given(flags.query.filter)};
  connection->rows.resize(count * queries.row_bytes());
  for (std::uint64_t i = 0; i < count; ++i) {
    std::copy_n(queries.Row(first + i), queries.row_bytes(),
                connection->rows.begin() + static_cast<std::ptrdiff_t>(i * queries.row_bytes()));
  }
  const client::Vectors vectors = client::Vectors::Raw(connection->rows, count);
  const auto keep = [&](const auto& reply) {
    answer->clear();
    for (std::size_t j = 0; j < reply.ids.size(); ++j)
      answer->push_back({reply.ids[j], reply.distances[j]});
    connection->params = reply.params;
    connection->predicted = reply.predicted;
    connection->matches = reply.matches.value_or(0);
    connection->cut_short += reply.cut_short;
    if (reply.counters.has_value()) connection->counters += *reply.counters;
  };
  if (flags.batch == 1) {
    HMANN_ASSIGN_OR_RETURN(const client::Answer reply,
                           connection->server.Search(flags.index, vectors, options, call));
    keep(reply);
    return absl::OkStatus();
  }
  HMANN_ASSIGN_OR_RETURN(const client::BatchAnswer reply,
                         connection->server.SearchBatch(flags.index, vectors, options, call));
  // k <= n, so every query has k answers; the split below relies on it.
  if (reply.ids.size() != count * reply.params.k)
    return Internal("expected ", count * reply.params.k, " ids, found ", reply.ids.size());
  keep(reply);
  return absl::OkStatus();
}

/// Splits answers and latencies by batch into answers and latencies by query. Each query
/// waited as long as its batch.
void SplitBatches(std::uint64_t queries, std::uint64_t batch, QueryRun* run) {
  std::vector<std::vector<Neighbor>> answers(queries);
  std::vector<std::uint64_t> latency_ns(queries);
  for (std::uint64_t i = 0; i < queries; ++i) {
    const auto begin =
        run->answers[i / batch].begin() + static_cast<std::ptrdiff_t>((i % batch) * run->params.k);
    answers[i].assign(begin, begin + run->params.k);
    latency_ns[i] = run->latency_ns[i / batch];
  }
  run->answers = std::move(answers);
  run->latency_ns = std::move(latency_ns);
}

absl::Status Query(const QueryCallFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(VectorFile queries,
                         VectorFile::Open(flags.query.queries, flags.query.rows));
  HMANN_RETURN_IF_ERROR(CheckFiles(flags.query, queries.n()));
  QueryRun run;
  run.threads = flags.query.threads;
  std::vector<Connection> connections;
  for (int thread = 0; thread < run.threads; ++thread) {
    HMANN_ASSIGN_OR_RETURN(client::Client client,
                           client::Client::Connect(flags.server, flags.connect));
    connections.emplace_back(std::move(client));
    HMANN_RETURN_IF_ERROR(connections.back().server.WaitReady(
        flags.index, {.deadline = flags.deadline}, flags.patience));
  }
  HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index,
                         connections[0].server.Describe(flags.index, {.deadline = flags.deadline}));
  HMANN_RETURN_IF_ERROR(
      queries.FitQueries(index.dim, index.dtype, absl::StrCat("index '", index.name, "'")));
  run.metric = index.metric;
  run.n = index.n;
  run.simd = index.simd;

  const std::uint64_t batch = run.batch = flags.batch;
  const auto answer_one = [&](int thread, std::uint64_t i, std::vector<Neighbor>* answer) {
    const std::uint64_t first = i * batch, count = std::min(batch, queries.n() - first);
    return AskFor(flags, queries, first, count, &connections[static_cast<std::size_t>(thread)],
                  answer);
  };
  HMANN_RETURN_IF_ERROR(RunQueries((queries.n() + batch - 1) / batch, answer_one, &run));
  run.counters.emplace();
  if (flags.query.search.budget.has_value()) run.cut_short.emplace(0);
  run.requested = flags.query.search;
  for (const Connection& connection : connections) {
    *run.counters += connection.counters;
    if (run.cut_short.has_value()) *run.cut_short += connection.cut_short;
    if (connection.predicted.has_value())
      run.predicted = {connection.predicted->recall, connection.predicted->mean_us,
                       connection.predicted->predicted_for};
    if (connection.rows.empty()) continue;
    run.params = connection.params;
    run.matches = static_cast<double>(connection.matches);
  }
  if (!flags.query.filter.empty()) {
    HMANN_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(flags.query.filter));
    run.filter = filter.text();
  }
  if (batch > 1) SplitBatches(queries.n(), batch, &run);
  return Report(run, flags.query);
}

}  // namespace

CommandAction SetupQuery(CLI::App& app) {
  auto flags = std::make_shared<QueryCallFlags>();
  app.add_option("--server", flags->server, "HOST:PORT of a running `hmann serve`")->required();
  app.add_option("--index", flags->index, "name of the index on the server")->required();
  AddConnectFlags(app, &flags->connect);
  AddQueryFlags(app, &flags->query);
  app.add_option("--batch", flags->batch, "queries per request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->excludes("--budget")
      ->excludes("--filter");
  AddParsed(
      app, "--deadline", ParseDuration,
      [flags](std::chrono::nanoseconds time) { flags->deadline = flags->patience = time; },
      "deadline of a request, and for the server to become ready (default 10s, 1s to connect)");
  return [flags] { return Query(*flags); };
}

}  // namespace hmann::tools
