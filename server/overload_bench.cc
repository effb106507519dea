/// An overloaded server on one core, with the load generator on the others. It measures
/// three things. First, how much many clients get that come back soon after a refusal.
/// Second, the latency of a single search next to clients that send wide searches without
/// a pause. Third, how much is answered in time at several times the capacity; arrivals
/// follow a schedule, whether or not answers come.
///
///     overload_bench --index sift.hmann --queries queries.u8bin
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "hmann/client.h"
#include "index/base/clock.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "server/testing/server_process.h"

namespace hmann::server {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Flags {
  std::string index, queries;
  double seconds = 5;
};

/// Sends requests to the index "bench" of the server at `address`.
class Load {
 public:
  Load(std::string address, std::vector<std::byte> row)
      : address_(std::move(address)), row_(std::move(row)) {}

  client::Client Connected() const {
    auto client = client::Client::Connect(address_, {.own_connection = true, .retry = false});
    return *std::move(client);
  }
  /// Sends a batch of `batch` copies of one query.
  absl::Status Call(client::Client& client, std::size_t batch, std::uint32_t ef,
                    std::chrono::nanoseconds deadline) const {
    client::SearchParams options;
    options.k = 10;
    options.ef_l0 = ef;
    options.mode = SearchMode::kGraph;
    std::vector<std::byte> rows;
    for (std::size_t i = 0; i < batch; ++i) rows.insert(rows.end(), row_.begin(), row_.end());
    const auto vectors = client::Vectors::Raw(rows, batch);
    return batch == 1
               ? client.Search("bench", vectors, options, {.deadline = deadline}).status()
               : client.SearchBatch("bench", vectors, options, {.deadline = deadline}).status();
  }

  /// The batches per second that `clients` get in closed loops.
  double Capacity(int clients, std::size_t batch, std::uint32_t ef, double seconds) const {
    std::atomic<int> answered{0};
    std::vector<std::thread> threads;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    threads.reserve(static_cast<std::size_t>(clients));
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&] {
        client::Client client = Connected();
        while (Clock::now() < end) answered += Call(client, batch, ef, 60s).ok() ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return answered / seconds;
  }

  /// The outcomes of batches that arrive `rate` times a second.
  std::map<absl::StatusCode, int> Offer(double rate, std::size_t batch, std::uint32_t ef,
                                        std::chrono::nanoseconds deadline, double seconds) const {
    std::map<absl::StatusCode, int> ends;
    std::mutex mutex;
    std::atomic<int> next{0};
    const auto start = Clock::now();
    const int count = static_cast<int>(rate * seconds);
    std::vector<std::thread> threads;
    // This many can be in flight when none is refused.
    const int most = std::clamp(static_cast<int>(rate * 1.5), 4, 256);
    threads.reserve(static_cast<std::size_t>(most));
    for (int t = 0; t < most; ++t) {
      threads.emplace_back([&] {
        client::Client client = Connected();
        for (int i = next++; i < count; i = next++) {
          std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(
                                                    std::chrono::duration<double>(i / rate)));
          const absl::StatusCode code = Call(client, batch, ef, deadline).code();
          const std::lock_guard lock(mutex);
          ++ends[code];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  }

  /// The outcomes of `clients` that each send the next batch after an answer, or after
  /// `back` once one was refused.
  std::map<absl::StatusCode, int> Return(int clients, std::size_t batch, std::uint32_t ef,
                                         std::chrono::nanoseconds deadline,
                                         std::chrono::nanoseconds back, double seconds) const {
    std::map<absl::StatusCode, int> ends;
    std::mutex mutex;
    std::vector<std::thread> threads;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    threads.reserve(static_cast<std::size_t>(clients));
    for (int t = 0; t < clients; ++t) {
      threads.emplace_back([&] {
        client::Client client = Connected();
        while (Clock::now() < end) {
          const absl::StatusCode code = Call(client, batch, ef, deadline).code();
          {
            const std::lock_guard lock(mutex);
            ++ends[code];
          }
          if (code != absl::StatusCode::kOk) std::this_thread::sleep_for(back);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  }

  /// The times of single searches in microseconds, one every 5 ms.
  std::vector<double> Probe(double seconds) const {
    std::vector<double> times;
    client::Client client = Connected();
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) {
      const auto start = Clock::now();
      if (Call(client, 1, 64, 1s).ok())
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      std::this_thread::sleep_for(5ms);
    }
    return times;
  }

 private:
  const std::string address_;
  const std::vector<std::byte> row_;
};

void PrintGoodput(const Load& load, double seconds) {
  std::printf(
      "batches with a deadline of 1 s, ef_l0 200: queries a second\n"
      "  batch  capacity  offered  in time  of capacity   refused  too late\n");
  for (const std::size_t batch : {1, 64, 1024}) {
    load.Capacity(2, batch, 200, 1);
    const double capacity = load.Capacity(2, batch, 200, seconds);
    for (const double times : {1.6, 3.0, 10.0}) {
      auto ends = load.Offer(capacity * times, batch, 200, 1s, seconds);
      const double in_time = ends[absl::StatusCode::kOk] / seconds;
      std::printf("  %5zu %9.0f %7.1fx %8.0f %12.2f %9d %9d\n", batch,
                  capacity * static_cast<double>(batch), times,
                  in_time * static_cast<double>(batch), in_time / capacity,
                  ends[absl::StatusCode::kResourceExhausted],
                  ends[absl::StatusCode::kDeadlineExceeded]);
    }
  }
}

/// Many clients in closed loops that come back soon after a refusal, as many do.
void PrintReturning(const Load& load, double seconds) {
  std::printf(
      "64 clients, ef_l0 64, a deadline of eight batches, back some time after a refusal\n"
      "  batch  capacity  back after  in time  of capacity   refused  too late\n");
  for (const std::size_t batch : {64, 4096}) {
    double before = load.Capacity(2, batch, 64, seconds);
    const auto deadline = std::max<std::chrono::nanoseconds>(
        1s, std::chrono::nanoseconds(static_cast<std::int64_t>(8e9 / before)));
    for (const auto back : {20ms, 200ms}) {
      auto ends = load.Return(64, batch, 64, deadline, back, seconds);
      const double after = load.Capacity(2, batch, 64, seconds);
      const double capacity = (before + after) / 2;
      before = after;
      const double in_time = ends[absl::StatusCode::kOk] / seconds;
      std::printf("  %5zu %9.0f %8lld ms %8.0f %12.2f %9d %9d\n", batch,
                  capacity * static_cast<double>(batch), static_cast<long long>(back.count()),
                  in_time * static_cast<double>(batch), in_time / capacity,
                  ends[absl::StatusCode::kResourceExhausted],
                  ends[absl::StatusCode::kDeadlineExceeded]);
    }
  }
}

void PrintNeighbors(const Load& load, double seconds) {
  const auto print = [](const char* beside, std::vector<double> times) {
    std::sort(times.begin(), times.end());
    std::printf("  %-40s %6zu answers, p50 %8.0f us, p99 %8.0f us\n", beside, times.size(),
                Percentile(times, 0.5), Percentile(times, 0.99));
  };
  std::printf("a single search, ef_l0 64\n");
  print("alone", load.Probe(seconds));
  const auto beside = [&](int clients, const std::string& name, const auto& work) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(clients));
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&] {
        client::Client client = load.Connected();
        while (!stop) work(client);
      });
    }
    std::this_thread::sleep_for(500ms);
    print(name.c_str(), load.Probe(seconds));
    stop = true;
    for (std::thread& thread : threads) thread.join();
  };
  for (const std::size_t batch : {1, 256}) {
    beside(8, absl::StrCat("beside 8 clients, ef_l0 10000, batch ", batch),
           [&](client::Client& client) { load.Call(client, batch, 10000, 30s).IgnoreError(); });
  }
  beside(4, "beside 4 clients that describe",
         [](client::Client& client) { client.Describe("bench").IgnoreError(); });
}

absl::Status Run(const Flags& flags, const ServerProcess& server) {
  HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(flags.queries));
  const auto* row = static_cast<const std::byte*>(file.Row(0));
  const Load load(server.address(), {row, row + file.row_bytes()});
  client::Client client = load.Connected();
  HMANN_RETURN_IF_ERROR(client.WaitReady("bench", {.deadline = 10min}));
  PrintReturning(load, flags.seconds);
  PrintNeighbors(load, flags.seconds);
  PrintGoodput(load, flags.seconds);
  return absl::OkStatus();
}

}  // namespace

/// Returns the exit code.
int Measure(int argc, char** argv) {
  CLI::App app("What a server on one core answers in time when more is asked than it can do");
  Flags flags;
  app.add_option("--index", flags.index, "index file")->required();
  app.add_option("--queries", flags.queries, "vector file")->required();
  app.add_option("--seconds", flags.seconds, "of each measurement");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  ServerOptions options;
  options.indexes = {{"bench", flags.index}};
  options.listen = "127.0.0.1:0";
  options.threads = 1;
  const ServerProcess server(options, 0);
  cpu_set_t others;
  sched_getaffinity(0, sizeof(others), &others);
  if (CPU_COUNT(&others) > 1) CPU_CLR(0, &others);
  sched_setaffinity(0, sizeof(others), &others);
  const absl::Status status = Run(flags, server);
  if (!status.ok()) std::fprintf(stderr, "overload_bench: %s\n", status.ToString().c_str());
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
