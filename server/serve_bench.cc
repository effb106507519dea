/// Measures the cost of serving. It compares the latency of one gRPC search with that of
/// the same search in process and of an empty RPC. It also measures the server's
/// processor time per call, and queries per second by number of clients and batch size.
/// The server is a separate process on loopback, with one thread per core by default.
///
///     serve_bench --index sift.hmann --queries queries.u8bin --ef-l0 80
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <functional>
#include <thread>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "hmann/client.h"
#include "hmann/hmann.h"
#include "index/base/check.h"
#include "index/base/clock.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/testing/server_process.h"

namespace hmann::server {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Flags {
  std::string index, queries;
  SearchParams search;
  int threads = 0;
  int rounds = 5;
  double seconds = 1;
  bool json = false;
};

struct Queries {
  std::vector<std::byte> bytes;
  std::size_t count = 0, row_bytes = 0;

  std::span<const std::byte> rows(std::size_t first, std::size_t n) const {
    return std::span(bytes).subspan(first * row_bytes, n * row_bytes);
  }
};

double Microseconds(const std::function<absl::Status()>& work, absl::Status* status) {
  const auto start = Clock::now();
  status->Update(work());
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The three calls alternate on each query, so that all see the same machine state. The
/// first tenth is warm-up.
absl::StatusOr<Json> MeasureLatency(const Flags& flags, const Queries& queries,
                                    const std::string& address) {
  HMANN_ASSIGN_OR_RETURN(const auto index, Index::Open(flags.index));
  index->Warm();
  Searcher searcher(index);
  HMANN_ASSIGN_OR_RETURN(const ResolvedSearch resolved, index->Resolve(flags.search));
  HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(address));
  const auto health = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));

  const std::size_t calls = 2000 * static_cast<std::size_t>(flags.rounds);
  std::vector<double> in_process, empty, served;
  absl::Status status;
  Answer answer;
  for (std::size_t i = 0; i < calls && status.ok(); ++i) {
    const auto row = queries.rows(i % queries.count, 1);
    const double a = Microseconds(
        [&] { return searcher.Search(row.data(), resolved.params, &answer); }, &status);
    const double b = Microseconds(
        [&] {
          grpc::ClientContext context;
          grpc::health::v1::HealthCheckResponse response;
          return health->Check(&context, {}, &response).ok()
                     ? absl::OkStatus()
                     : absl::UnavailableError("health check failed");
        },
        &status);
    const double c = Microseconds(
        [&] { return client.Search("bench", client::Vectors::Raw(row), flags.search).status(); },
        &status);
    if (i < calls / 10) continue;
    in_process.push_back(a);
    empty.push_back(b);
    served.push_back(c);
  }
  HMANN_RETURN_IF_ERROR(status);
  std::vector<double> added(served.size());
  std::transform(served.begin(), served.end(), in_process.begin(), added.begin(), std::minus<>());
  return Json{{"calls", served.size()},
              {"in_process_us", Median(in_process)},
              {"empty_rpc_us", Median(empty)},
              {"served_us", Median(served)},
              {"added_us", Median(added)}};
}

double ThreadCpuMicroseconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
}

/// The processor time per query, in blocks that alternate: of a search in this process,
/// and of the server for an empty RPC, a unary search, and a search of a stream with 16
/// in flight.
absl::StatusOr<Json> MeasureCpu(const Flags& flags, const Queries& queries,
                                const ServerProcess& server) {
  constexpr std::size_t kBlock = 500, kInFlight = 16;
  HMANN_ASSIGN_OR_RETURN(const auto index, Index::Open(flags.index));
  index->Warm();
  Searcher searcher(index);
  HMANN_ASSIGN_OR_RETURN(const ResolvedSearch resolved, index->Resolve(flags.search));
  HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(server.address()));
  const auto health = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  client::SearchStream stream =
      client.OpenStream("bench", flags.search, {.deadline = std::chrono::hours(1)});
  std::size_t next = 0;
  absl::Status status;
  const auto row = [&] { return queries.rows(next++ % queries.count, 1); };
  const auto search = [&] {
    Answer answer;
    for (std::size_t i = 0; i < kBlock; ++i)
      status.Update(searcher.Search(row().data(), resolved.params, &answer));
  };
  const auto empty = [&] {
    for (std::size_t i = 0; i < kBlock; ++i) {
      grpc::ClientContext context;
      grpc::health::v1::HealthCheckResponse response;
      if (!health->Check(&context, {}, &response).ok())
        status.Update(absl::UnavailableError("health check failed"));
    }
  };
  const auto unary = [&] {
    for (std::size_t i = 0; i < kBlock; ++i)
      status.Update(client.Search("bench", client::Vectors::Raw(row()), flags.search).status());
  };
  const auto streamed = [&] {
    for (std::size_t i = 0; i < kBlock + kInFlight; ++i) {
      if (i < kBlock) status.Update(stream.Send(i, client::Vectors::Raw(row())));
      if (i >= kInFlight) status.Update(stream.Receive().status());
    }
  };
  std::vector<double> of_search, of_empty, of_unary, of_stream;
  const auto measure = [&](const auto& cpu, const auto& work, std::vector<double>* times) {
    const double before = cpu();
    work();
    times->push_back((cpu() - before) / kBlock);
  };
  const auto of_server = [&] { return server.CpuMicroseconds(); };
  for (int round = 0; round < 4 * flags.rounds && status.ok(); ++round) {
    measure(ThreadCpuMicroseconds, search, &of_search);
    measure(of_server, empty, &of_empty);
    measure(of_server, unary, &of_unary);
    measure(of_server, streamed, &of_stream);
  }
  HMANN_RETURN_IF_ERROR(status);
  return Json{{"search_us", Median(of_search)},
              {"empty_rpc_us", Median(of_empty)},
              {"unary_us", Median(of_unary)},
              {"stream_us", Median(of_stream)}};
}

/// The queries per second of `clients` closed loops with one connection each.
absl::StatusOr<double> MeasureQps(const Flags& flags, const Queries& queries,
                                  const std::string& address, int clients, std::size_t batch) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> answered{0};
  std::atomic<bool> stop{false};
  std::vector<absl::Status> statuses(static_cast<std::size_t>(clients));
  std::vector<std::thread> threads;
  threads.reserve(statuses.size());
  for (absl::Status& status : statuses) {
    threads.emplace_back([&, own = &status] {
      auto client = client::Client::Connect(address, {.own_connection = true});
      for (*own = client.status(); own->ok() && !stop.load();) {
        const std::size_t count = std::min(batch, queries.count),
                          first = next.fetch_add(count) % (queries.count - count + 1);
        const auto rows = client::Vectors::Raw(queries.rows(first, count), count);
        own->Update(batch == 1 ? client->Search("bench", rows, flags.search).status()
                               : client->SearchBatch("bench", rows, flags.search).status());
        answered.fetch_add(count);
      }
    });
  }
  std::this_thread::sleep_for(
      std::chrono::duration<double>(flags.seconds / 5));  // connections and caches
  const std::uint64_t before = answered.load();
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(flags.seconds));
  const std::uint64_t after = answered.load();
  const double seconds = SecondsSince(start);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) HMANN_RETURN_IF_ERROR(status);
  return static_cast<double>(after - before) / seconds;
}

absl::StatusOr<Json> MeasureThroughput(const Flags& flags, const Queries& queries,
                                       const std::string& address) {
  struct Cell {
    int clients;
    std::size_t batch;
    std::vector<double> qps;
  };
  std::vector<Cell> cells;
  for (const std::size_t batch : {1, 16, 256}) {
    for (const int clients : {1, 2, 8, 32}) cells.push_back({clients, batch, {}});
  }
  for (int round = 0; round < flags.rounds; ++round) {
    for (Cell& cell : cells) {
      HMANN_ASSIGN_OR_RETURN(const double qps,
                             MeasureQps(flags, queries, address, cell.clients, cell.batch));
      cell.qps.push_back(qps);
    }
  }
  Json out = Json::array();
  for (const Cell& cell : cells)
    out.push_back({{"clients", cell.clients}, {"batch", cell.batch}, {"qps", Median(cell.qps)}});
  return out;
}

void Print(const Json& result) {
  std::printf("processor time of the server, median of blocks (search_us: in this process)\n");
  for (const auto& [name, time] : result["cpu"].items())
    std::printf("  %-14s %8.1f\n", name.c_str(), time.get<double>());
  const Json& latency = result["latency"];
  std::printf("one search, median of %d\n", latency["calls"].get<int>());
  for (const char* name : {"in_process_us", "empty_rpc_us", "served_us", "added_us"}) {
    std::printf("  %-14s %8.1f\n", name, latency[name].get<double>());
  }
  std::printf("queries per second\n  batch   clients: 1          2          8         32");
  for (const Json& cell : result["throughput"]) {
    if (cell["clients"] == 1) std::printf("\n  %5d   ", cell["batch"].get<int>());
    std::printf("%11.0f", cell["qps"].get<double>());
  }
  std::printf("\n");
}

absl::Status Run(const Flags& flags, const ServerProcess& server) {
  HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(flags.queries));
  Queries queries;
  queries.count = static_cast<std::size_t>(file.n());
  queries.row_bytes = file.row_bytes();
  queries.bytes.resize(queries.count * queries.row_bytes);
  for (std::size_t i = 0; i < queries.count; ++i)
    std::memcpy(queries.bytes.data() + i * queries.row_bytes, file.Row(i), queries.row_bytes);

  HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(server.address()));
  HMANN_RETURN_IF_ERROR(client.WaitReady("bench", {.deadline = std::chrono::minutes(10)}));
  HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index, client.Describe("bench"));
  Json result{{"n", index.n},
              {"dim", index.dim},
              {"simd", index.simd},
              {"server_threads", index.threads},
              {"k", flags.search.k}};
  HMANN_ASSIGN_OR_RETURN(result["cpu"], MeasureCpu(flags, queries, server));
  HMANN_ASSIGN_OR_RETURN(result["latency"], MeasureLatency(flags, queries, server.address()));
  HMANN_ASSIGN_OR_RETURN(result["throughput"], MeasureThroughput(flags, queries, server.address()));
  if (flags.json) {
    std::printf("%s\n", result.dump().c_str());
  } else {
    Print(result);
  }
  return absl::OkStatus();
}

}  // namespace

/// Sets one parameter, given as NAME=VALUE.
absl::Status Call(const std::string& setting, SearchParams* options) {
  const std::size_t equals = setting.find('=');
  const ParamInfo* const param = FindParam(setting.substr(0, equals));
  if (param == nullptr || equals == std::string::npos)
    return absl::InvalidArgumentError("expected NAME=VALUE of a parameter");
  HMANN_ASSIGN_OR_RETURN(const double value,
                         param->Parse(std::string_view(setting).substr(equals + 1)));
  param->ask(*options, value);
  return absl::OkStatus();
}

/// Returns the exit code.
int Measure(int argc, char** argv) {
  CLI::App app(
      "What serving costs: latency of one search over gRPC, and queries per second by clients and "
      "batch size");
  Flags flags;
  app.add_option("--index", flags.index, "index file")->required();
  app.add_option("--queries", flags.queries, "vector file")->required();
  app.add_option("--k", flags.search.k);
  std::vector<std::string> settings;
  app.add_option("--param", settings, "NAME=VALUE, as in the JSON of `hmann search`: ef_l0=56");
  app.add_option("--threads", flags.threads, "of the server; 0: as many as there are cores");
  app.add_option("--rounds", flags.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--seconds", flags.seconds, "per cell and round");
  app.add_flag("--json", flags.json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const std::string& setting : settings) {
    if (const absl::Status requested = Call(setting, &flags.search); !requested.ok()) {
      std::fprintf(stderr, "--param %s: %s\n", setting.c_str(),
                   std::string(requested.message()).c_str());
      return 2;
    }
  }
  ServerOptions options;
  options.indexes = {{"bench", flags.index}};
  options.listen = "127.0.0.1:0";
  options.threads = flags.threads;
  const ServerProcess server(options);
  const absl::Status status = Run(flags, server);
  if (!status.ok()) std::fprintf(stderr, "serve_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace hmann::server

int main(int argc, char** argv) {
  try {
    return hmann::server::Measure(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
