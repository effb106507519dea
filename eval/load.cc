#include "eval/load.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/adapters/requested_params.h"
#include "eval/results.h"
#include "hmann/machine_load.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
namespace {

using Clock = std::chrono::steady_clock;

/// The most requests in flight at once.
constexpr double kMostThreads = 512;
constexpr double kMostRequests = 1e8;

/// User and system time of a process; pid 0 is this one.
absl::StatusOr<double> CpuSecondsOf(int pid) {
  clockid_t clock{};
  // A too large pid does not fit the clock id, which would then denote another process.
  const bool there = pid == 0 || ::kill(pid, 0) == 0 || errno == EPERM;
  if (!there || ::clock_getcpuclockid(pid, &clock) != 0)
    return NotFound("process ", pid, ": there is none");
  return ClockSeconds(clock);
}

/// Arrival times of requests in nanoseconds from the start: a Poisson process.
std::vector<std::chrono::nanoseconds> Arrivals(std::chrono::nanoseconds time, double rate) {
  std::vector<std::chrono::nanoseconds> arrivals;
  double at = 0;
  for (std::uint64_t i = 0;; ++i) {
    at -= std::log(1 - RandomUnit(1, i)) * 1e9 / rate;
    if (at >= static_cast<double>(time.count())) break;
    arrivals.emplace_back(static_cast<std::int64_t>(at));
  }
  return arrivals;
}

/// The outcomes of a thread's requests.
struct Ends {
  std::map<absl::StatusCode, std::uint64_t> codes;
  std::vector<double> latency_us;  ///< of answered requests

  void Add(absl::StatusCode code, Clock::duration took) {
    ++codes[code];
    if (code == absl::StatusCode::kOk)
      latency_us.push_back(std::chrono::duration<double, std::micro>(took).count());
  }
};

/// Sends requests from several threads.
class Sender {
 public:
  Sender(const VectorFile& queries, const LoadOptions& options, const SearchParams& search,
         std::vector<client::Client> clients)
      : queries_(queries), options_(options), search_(search), clients_(std::move(clients)) {}

  /// Sends request `i`; the clients take turns.
  absl::Status Send(std::uint64_t i, std::chrono::nanoseconds deadline) {
    client::Client& client = clients_[i % clients_.size()];
    const client::CallOptions call{.deadline = deadline};
    std::vector<std::byte> rows(options_.batch * queries_.row_bytes());
    for (std::uint64_t j = 0; j < options_.batch; ++j) {
      const auto* row =
          static_cast<const std::byte*>(queries_.Row((i * options_.batch + j) % queries_.n()));
      std::copy_n(row, queries_.row_bytes(), rows.data() + j * queries_.row_bytes());
    }
    const auto vectors = client::Vectors::Raw(rows, options_.batch);
    return options_.batch == 1
               ? client.Search(options_.index, vectors, search_, call).status()
               : client.SearchBatch(options_.index, vectors, search_, call).status();
  }

  /// Sends all requests at their times. Returns their outcomes, and the seconds from the
  /// first arrival to the last end.
  Ends Run(const std::vector<std::chrono::nanoseconds>& arrivals, double rate, double* seconds) {
    const double under_way = rate * std::chrono::duration<double>(options_.deadline).count();
    const std::size_t threads =
        options_.stream ? clients_.size()
                        : static_cast<std::size_t>(std::clamp(2 * under_way, 4.0, kMostThreads));
    std::vector<Ends> ends(threads);
    std::vector<std::jthread> pool;
    start_ = Clock::now();
    for (std::size_t t = 0; t < threads; ++t)
      pool.emplace_back(
          [&, t] { options_.stream ? Stream(t, arrivals, &ends[t]) : Call(arrivals, &ends[t]); });
    pool.clear();  // joins them
    *seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    Ends all;
    for (const Ends& of_thread : ends) {
      for (const auto& [code, count] : of_thread.codes) all.codes[code] += count;
      all.latency_us.insert(all.latency_us.end(), of_thread.latency_us.begin(),
                            of_thread.latency_us.end());
    }
    std::sort(all.latency_us.begin(), all.latency_us.end());
    return all;
  }

 private:
  /// Sends the next unsent request until none is left.
  void Call(const std::vector<std::chrono::nanoseconds>& arrivals, Ends* ends) {
    for (std::size_t i = next_++; i < arrivals.size(); i = next_++) {
      const auto arrived = start_ + arrivals[i];
      std::this_thread::sleep_until(arrived);
      const auto left = options_.deadline - (Clock::now() - arrived);
      const absl::Status status = left > std::chrono::nanoseconds::zero()
                                      ? Send(i, left)
                                      : absl::DeadlineExceededError("not sent");
      ends->Add(status.code(), Clock::now() - arrived);
    }
  }

  /// Connection c sends requests c, c + connections, ...
  void Stream(std::size_t c, const std::vector<std::chrono::nanoseconds>& arrivals, Ends* ends) {
    client::SearchStream stream = clients_[c].OpenStream(
        options_.index, search_, {.deadline = options_.time + 2 * options_.deadline});
    std::uint64_t unanswered = 0;
    for (std::size_t i = c; i < arrivals.size(); i += clients_.size()) ++unanswered;
    std::thread sender([&] {
      for (std::size_t i = c; i < arrivals.size(); i += clients_.size()) {
        std::this_thread::sleep_until(start_ + arrivals[i]);
        const client::Vectors query = client::Vectors::Raw(
            {static_cast<const std::byte*>(queries_.Row(i % queries_.n())), queries_.row_bytes()});
        if (!stream.Send(i, query).ok()) break;
      }
      stream.DoneSending().IgnoreError();
    });
    auto next = stream.Receive();
    for (; next.ok() && next->has_value(); next = stream.Receive()) {
      if ((*next)->id >= arrivals.size() || unanswered == 0) {
        next = Internal("an answer to what was not asked");
        break;
      }
      --unanswered;
      const auto took = Clock::now() - (start_ + arrivals[(*next)->id]);
      // A stream has one deadline; we keep that of each query.
      const bool late = (*next)->answer.ok() && took > options_.deadline;
      ends->Add(late ? absl::StatusCode::kDeadlineExceeded : (*next)->answer.status().code(), took);
    }
    if (unanswered > 0)
      ends->codes[next.ok() ? absl::StatusCode::kInternal : next.status().code()] += unanswered;
    sender.join();
  }

  const VectorFile& queries_;
  const LoadOptions& options_;
  const SearchParams& search_;
  std::vector<client::Client> clients_;
  Clock::time_point start_;
  std::atomic<std::size_t> next_{0};
};

/// Runs once and returns the line. Repeats the run if others disturbed it.
absl::StatusOr<Json> RunOnce(const VectorFile& queries, const LoadOptions& load,
                             const Json& setting, double rate, int round) {
  HMANN_ASSIGN_OR_RETURN(SearchParams search, RequestedParams(setting));
  search.k = load.k;
  for (int attempt = 0;; ++attempt) {
    const MachineLoad machine({load.server_pid});
    HMANN_ASSIGN_OR_RETURN(const Json figures, OfferLoad(queries, load, search, rate));
    OthersShare others = machine.Others();
    if (load.server_pid == 0) others.busy = 0;  // the server may be among the others
    if (!others.quiet() && attempt == 0) continue;
    Json line = {{"kind", "run"},
                 {"system", absl::StrCat(load.index, " at ", load.server)},
                 {"place",
                  {{"server", load.server},
                   {"connections", load.connections},
                   {"call", load.stream ? "stream" : "search"}}},
                 {"setting", setting},
                 {"round", round}};
    line.update(figures);
    line["others_busy"] = others.busy;
    line["others_steal"] = others.steal;
    if (!others.quiet()) line["noisy"] = true;
    return line;
  }
}

}  // namespace

absl::StatusOr<Json> OfferLoad(const VectorFile& queries, const LoadOptions& options,
                               const SearchParams& search, double rate) {
  if (!(rate > 0 && rate * std::chrono::duration<double>(options.time).count() <= kMostRequests) ||
      options.batch == 0 || options.connections < 1 ||
      options.deadline <= std::chrono::nanoseconds::zero() ||
      (options.stream && options.batch > 1)) {
    return InvalidArgument(
        "load: expected rate, batch, connections and deadline above 0, at most 100 million "
        "requests, and streams of single searches");
  }
  client::ConnectOptions connect = options.connect;
  connect.own_connection = true;
  connect.retry = false;
  std::vector<client::Client> clients;
  for (int i = 0; i < options.connections; ++i) {
    HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(options.server, connect));
    HMANN_RETURN_IF_ERROR(client.WaitReady(options.index));
    clients.push_back(std::move(client));
  }
  Sender sender(queries, options, search, std::move(clients));
  // An error common to all requests shows in the first.
  HMANN_RETURN_IF_ERROR(sender.Send(0, std::chrono::seconds(10)));
  const std::vector<std::chrono::nanoseconds> arrivals = Arrivals(options.time, rate);
  HMANN_ASSIGN_OR_RETURN(const double server_before, CpuSecondsOf(options.server_pid));
  HMANN_ASSIGN_OR_RETURN(const double client_before, CpuSecondsOf(0));
  double seconds = 0;
  const Ends ends = sender.Run(arrivals, rate, &seconds);
  HMANN_ASSIGN_OR_RETURN(const double client_after, CpuSecondsOf(0));
  HMANN_ASSIGN_OR_RETURN(const double server_after, CpuSecondsOf(options.server_pid));

  const auto offered = static_cast<double>(arrivals.size()),
             answered = static_cast<double>(ends.latency_us.size());
  Json figures = {{"rate", rate},
                  {"batch", options.batch},
                  {"offered", arrivals.size()},
                  {"answered", ends.latency_us.size()},
                  {"queries_per_second", RoundToDecimals(answered * options.batch / seconds, 1)}};
  for (const auto& [name, share] : {std::pair("p50_us", 0.5),
                                    {"p90_us", 0.9},
                                    {"p99_us", 0.99},
                                    {"p999_us", 0.999},
                                    {"max_us", 1.0}}) {
    figures[name] = ends.latency_us.empty()
                        ? Json()
                        : Json(RoundToDecimals(Percentile(ends.latency_us, share), 1));
  }
  figures["client_cpu_us"] = RoundToDecimals(1e6 * (client_after - client_before) / offered, 1);
  if (options.server_pid != 0)
    figures["server_cpu_us"] = RoundToDecimals(1e6 * (server_after - server_before) / offered, 1);
  figures["failed"] = Json::object();
  for (const auto& [code, count] : ends.codes)
    if (code != absl::StatusCode::kOk) figures["failed"][absl::StatusCodeToString(code)] = count;
  return figures;
}

absl::StatusOr<std::vector<Json>> RunLoad(const LoadOptions& load, Benchmark benchmark,
                                          const Say& say) {
  const BenchmarkData& job = benchmark.job;
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(job.queries));
  HMANN_RETURN_IF_ERROR(queries.FitQueries(queries.dim(), queries.dtype(), "the file itself"));
  benchmark.title = "Load";
  benchmark.targets.clear();
  std::vector<Json> lines = {HeadLine(benchmark, {{"queries", job.queries},
                                                  {"dim", queries.dim()},
                                                  {"dtype", std::string(Name(queries.dtype()))},
                                                  {"k", load.k},
                                                  {"query_count", queries.n()}})};
  for (int round = 0; round < benchmark.rounds; ++round) {
    for (const Json& setting : load.settings) {
      for (const double rate : load.rates) {
        if (job.cancelled != nullptr && job.cancelled->load())
          return absl::CancelledError("cancelled");
        HMANN_ASSIGN_OR_RETURN(Json line, RunOnce(queries, load, setting, rate, round));
        lines.push_back(std::move(line));
        say(absl::StrFormat("  %g requests a second: done", rate));
      }
    }
  }
  if (job.folder.empty()) return lines;
  HMANN_RETURN_IF_ERROR(MakeFolders(job.folder));
  HMANN_RETURN_IF_ERROR(WriteResults(job.folder + "/results.jsonl", lines));
  return lines;
}

}  // namespace hmann::eval
