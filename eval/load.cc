#include "eval/load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <mutex>
#include <span>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

/// Requests under way at once, at most.
constexpr double kMostThreads = 512;
constexpr double kMostRequests = 1e8;

double OwnCpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// User and system time of a process (proc(5): fields 14 and 15 of stat); 0 of pid 0.
absl::StatusOr<double> CpuSecondsOf(int pid) {
  if (pid == 0) return 0.0;
  const std::string path = absl::StrCat("/proc/", pid, "/stat");
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text))
    return absl::NotFoundError(absl::StrCat(path, ": there is no such process"));
  // The second field is the program's name in brackets, which may hold anything.
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(std::min(text.size(), text.rfind(')') + 2)), ' ');
  constexpr std::size_t kUser = 11, kSystem = 12;
  double user = 0, system = 0;
  if (fields.size() <= kSystem || !absl::SimpleAtod(fields[kUser], &user) ||
      !absl::SimpleAtod(fields[kSystem], &system)) {
    return absl::InternalError(absl::StrCat(path, ": expected fields 14 and 15, found none"));
  }
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Nanoseconds from the start at which requests arrive: a Poisson process.
std::vector<std::chrono::nanoseconds> Arrivals(const LoadOptions& options) {
  std::vector<std::chrono::nanoseconds> arrivals;
  double at = 0;
  for (std::uint64_t i = 0;; ++i) {
    at -= std::log(1 - RandomUnit(options.seed, i)) * 1e9 / options.rate;
    if (at >= static_cast<double>(options.time.count())) break;
    arrivals.emplace_back(static_cast<std::int64_t>(at));
  }
  return arrivals;
}

/// Sends requests from several threads.
class Sender {
 public:
  Sender(const VectorFile& queries, const LoadOptions& options, std::vector<client::Client> clients)
      : queries_(queries), options_(options), clients_(std::move(clients)) {}

  /// Request `i`, by client `i` of all in turn.
  absl::Status Send(std::uint64_t i, std::chrono::nanoseconds deadline) {
    client::Client& client = clients_[i % clients_.size()];
    const client::CallOptions call{.deadline = deadline};
    if (options_.empty) return client.List(call).status();
    std::vector<std::byte> rows(options_.batch * queries_.row_bytes());
    for (std::uint64_t j = 0; j < options_.batch; ++j) {
      const auto* row =
          static_cast<const std::byte*>(queries_.Row((i * options_.batch + j) % queries_.n()));
      std::copy_n(row, queries_.row_bytes(), rows.data() + j * queries_.row_bytes());
    }
    const auto vectors = client::Vectors::Raw(rows);
    return options_.batch == 1
               ? client.Search(options_.index, vectors, options_.search, call).status()
               : client.SearchBatch(options_.index, vectors, options_.search, call).status();
  }

  /// All requests at their times; connection c has numbers c, c + connections, ...
  void RunStreams(const std::vector<std::chrono::nanoseconds>& arrivals, LoadReport* report) {
    const auto start = Clock::now();
    std::vector<std::thread> pool;
    for (std::size_t c = 0; c < clients_.size(); ++c)
      pool.emplace_back([&, c] { WorkStream(c, arrivals, start, report); });
    for (std::thread& thread : pool) thread.join();
    report->seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::sort(report->latency_us.begin(), report->latency_us.end());
  }

  /// All requests at their times.
  void Run(const std::vector<std::chrono::nanoseconds>& arrivals, LoadReport* report) {
    const double under_way =
        options_.rate * std::chrono::duration<double>(options_.deadline).count();
    const auto threads = static_cast<std::size_t>(std::clamp(2 * under_way, 4.0, kMostThreads));
    const auto start = Clock::now();
    std::vector<std::thread> pool;
    pool.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t)
      pool.emplace_back([&] { Work(arrivals, start, report); });
    for (std::thread& thread : pool) thread.join();
    report->seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::sort(report->latency_us.begin(), report->latency_us.end());
  }

 private:
  void Work(const std::vector<std::chrono::nanoseconds>& arrivals, Clock::time_point start,
            LoadReport* report) {
    std::map<absl::StatusCode, std::uint64_t> ended;
    std::vector<double> latency_us;
    for (std::size_t i = next_++; i < arrivals.size(); i = next_++) {
      const auto arrived = start + arrivals[i];
      std::this_thread::sleep_until(arrived);
      const auto left = options_.deadline - (Clock::now() - arrived);
      const absl::Status status = left > std::chrono::nanoseconds::zero()
                                      ? Send(i, left)
                                      : absl::DeadlineExceededError("not sent");
      ++ended[status.code()];
      if (!status.ok()) continue;
      latency_us.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - arrived).count());
    }
    Add(ended, latency_us, report);
  }

  void WorkStream(std::size_t c, const std::vector<std::chrono::nanoseconds>& arrivals,
                  Clock::time_point start, LoadReport* report) {
    client::SearchStream stream = clients_[c].OpenStream(
        options_.index, options_.search, {.deadline = options_.time + 2 * options_.deadline});
    std::uint64_t unanswered = 0;
    for (std::size_t i = c; i < arrivals.size(); i += clients_.size()) ++unanswered;
    std::thread sender([&] {
      for (std::size_t i = c; i < arrivals.size(); i += clients_.size()) {
        std::this_thread::sleep_until(start + arrivals[i]);
        const client::Vectors query = client::Vectors::Raw(
            {static_cast<const std::byte*>(queries_.Row(i % queries_.n())), queries_.row_bytes()});
        if (!stream.Send(i, query).ok()) break;
      }
      stream.DoneSending().IgnoreError();
    });
    std::map<absl::StatusCode, std::uint64_t> ended;
    std::vector<double> latency_us;
    auto next = stream.Receive();
    for (; next.ok() && next->has_value(); next = stream.Receive()) {
      if ((*next)->id >= arrivals.size() || unanswered == 0) {
        next = absl::InternalError("an answer to what was not asked");
        break;
      }
      --unanswered;
      const auto took = Clock::now() - (start + arrivals[(*next)->id]);
      // A stream has one deadline; that of a query is ours to keep.
      const absl::StatusCode code = (*next)->answer.ok() && took > options_.deadline
                                        ? absl::StatusCode::kDeadlineExceeded
                                        : (*next)->answer.status().code();
      ++ended[code];
      if (code == absl::StatusCode::kOk)
        latency_us.push_back(std::chrono::duration<double, std::micro>(took).count());
    }
    if (unanswered > 0)
      ended[next.ok() ? absl::StatusCode::kInternal : next.status().code()] += unanswered;
    sender.join();
    Add(ended, latency_us, report);
  }

  void Add(const std::map<absl::StatusCode, std::uint64_t>& ended,
           const std::vector<double>& latency_us, LoadReport* report) {
    const std::lock_guard lock(mutex_);
    for (const auto& [code, count] : ended) report->ended[code] += count;
    report->latency_us.insert(report->latency_us.end(), latency_us.begin(), latency_us.end());
  }

  const VectorFile& queries_;
  const LoadOptions& options_;
  std::vector<client::Client> clients_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
};

absl::Status Validate(const LoadOptions& options) {
  const double requests = options.rate * std::chrono::duration<double>(options.time).count();
  if (!(options.rate > 0) || !(requests <= kMostRequests)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rate: expected more than 0, and at most 100 million requests in all, found ",
                     options.rate, " a second"));
  }
  if (options.batch == 0 || options.connections < 1)
    return absl::InvalidArgumentError("batch, connections: expected at least 1");
  if (options.stream && (options.batch > 1 || options.empty))
    return absl::InvalidArgumentError("stream: its requests have one query each");
  if (options.deadline <= std::chrono::nanoseconds::zero())
    return absl::InvalidArgumentError("deadline: expected more than 0");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadReport> OfferLoad(const VectorFile& queries, const LoadOptions& options) {
  HMANN_RETURN_IF_ERROR(Validate(options));
  client::ConnectOptions connect = options.connect;
  connect.own_connection = true;
  connect.retry = false;
  std::vector<client::Client> clients;
  for (int i = 0; i < options.connections; ++i) {
    HMANN_ASSIGN_OR_RETURN(client::Client client, client::Client::Connect(options.server, connect));
    HMANN_RETURN_IF_ERROR(client.WaitReady(options.index));
    clients.push_back(std::move(client));
  }
  Sender sender(queries, options, std::move(clients));
  // Whatever every request would end with, the first says.
  HMANN_RETURN_IF_ERROR(sender.Send(0, std::chrono::seconds(10)));
  const std::vector<std::chrono::nanoseconds> arrivals = Arrivals(options);
  LoadReport report;
  report.offered = arrivals.size();
  HMANN_ASSIGN_OR_RETURN(const double server_before, CpuSecondsOf(options.server_pid));
  const double client_before = OwnCpuSeconds();
  options.stream ? sender.RunStreams(arrivals, &report) : sender.Run(arrivals, &report);
  report.client_cpu_seconds = OwnCpuSeconds() - client_before;
  HMANN_ASSIGN_OR_RETURN(const double server_after, CpuSecondsOf(options.server_pid));
  report.server_cpu_seconds = server_after - server_before;
  return report;
}

}  // namespace hmann
