/// A server that swaps its index again and again while clients search it at a share of
/// its capacity: one query a call, batches, and streams. It compares each answer with
/// that of the file whose generation the reply names, and prints latencies without and
/// during swaps and what swaps leave behind in the server. It fails if a call failed, or
/// if an answer is not that of its file.
///
///     swap_bench --index one.hmann --other two.hmann --queries queries.u8bin
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "datasets/vector_file.h"
#include "hmann/client.h"
#include "hmann/hmann.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/format/reader.h"
#include "server/testing/server_process.h"

namespace hmann::server {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kBatch = 16, kTogether = 4, kQueries = 500;
constexpr std::uint32_t kNeighbors = 10;

struct Flags {
  std::string index, other, queries, slow = "mapped";
  int clients = 16, swaps = 1000, refused = 100, pause_ms = 50;
  double share = 0.3, seconds = 20;
};

std::uint64_t HashOf(std::span<const std::uint64_t> ids) {
  return absl::HashOf(absl::MakeConstSpan(ids.data(), ids.size()));
}

/// The hashes of the answers of a file, searched in this process.
absl::StatusOr<std::vector<std::uint64_t>> LocalHashes(const std::string& path,
                                                       const VectorFile& queries) {
  HMANN_ASSIGN_OR_RETURN(const auto index, Index::Open(path));
  Searcher searcher(index);
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < kQueries; ++i) {
    Answer answer;
    std::vector<std::uint64_t> ids;
    ids.reserve(kNeighbors);
    HMANN_RETURN_IF_ERROR(searcher.Search(queries.Row(i), SearchParams{.k = kNeighbors}, &answer));
    for (const Neighbor& neighbor : answer.nearest) ids.push_back(neighbor.label);
    hashes.push_back(HashOf(ids));
  }
  return hashes;
}

/// One client. Client i sends single queries, batches or a stream, by turns of i.
class Caller {
 public:
  struct Got {
    std::uint64_t generation, hash;
    std::uint32_t query;
  };

  Caller(client::Client client, std::vector<std::byte> rows, std::size_t turn)
      : client_(std::move(client)), rows_(std::move(rows)), turn_(turn) {}

  /// Calls as fast as answers come, or so often per second, until `stop`.
  void Run(double rate, const std::atomic<bool>& stop) {
    auto stream = client_.OpenStream("bench", {.k = kNeighbors}, {.deadline = 24h});
    const auto start = Clock::now();
    for (std::size_t call = 0; !stop; ++call) {
      auto due = Clock::now();
      if (rate > 0) {
        due = start + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(static_cast<double>(call) / rate));
        std::this_thread::sleep_until(due);
      }
      const std::size_t first = (turn_ * 37 + call * kBatch) % (kQueries - kBatch);
      const absl::Status status = turn_ % 3 == 0   ? Single(first)
                                  : turn_ % 3 == 1 ? Batch(first)
                                                   : Stream(stream, first);
      if (!status.ok()) {
        ++failed;
        std::fprintf(stderr, "a call failed: %s\n", status.ToString().c_str());
      }
      latencies.push_back(SecondsSince(due) * 1e6);
    }
  }

  std::vector<double> latencies;  ///< us, from when a call was due
  std::vector<Got> got;
  int failed = 0;

 private:
  client::Vectors Rows(std::size_t first, std::size_t count) const {
    const std::size_t row = rows_.size() / kQueries;
    return client::Vectors::Raw(std::span(rows_).subspan(first * row, count * row), count);
  }
  void Keep(std::uint64_t generation, std::size_t query, std::span<const std::uint64_t> ids) {
    got.push_back({generation, HashOf(ids), static_cast<std::uint32_t>(query)});
  }
  absl::Status Single(std::size_t first) {
    HMANN_ASSIGN_OR_RETURN(const client::Answer answer,
                           client_.Search("bench", Rows(first, 1), {.k = kNeighbors}));
    Keep(answer.generation, first, answer.ids);
    return absl::OkStatus();
  }
  absl::Status Batch(std::size_t first) {
    HMANN_ASSIGN_OR_RETURN(const client::BatchAnswer answer,
                           client_.SearchBatch("bench", Rows(first, kBatch), {.k = kNeighbors}));
    for (std::size_t i = 0; i < kBatch; ++i)
      Keep(answer.generation, first + i, std::span(answer.ids).subspan(i * kNeighbors, kNeighbors));
    return absl::OkStatus();
  }
  absl::Status Stream(client::SearchStream& stream, std::size_t first) {
    for (std::size_t i = 0; i < kTogether; ++i)
      HMANN_RETURN_IF_ERROR(stream.Send(first + i, Rows(first + i, 1)));
    for (std::size_t i = 0; i < kTogether; ++i) {
      HMANN_ASSIGN_OR_RETURN(auto next, stream.Receive());
      if (!next.has_value()) return Internal("the stream ended");
      HMANN_RETURN_IF_ERROR(next->answer.status());
      Keep(next->answer->generation, next->id, next->answer->ids);
    }
    return absl::OkStatus();
  }

  client::Client client_;
  const std::vector<std::byte> rows_;
  const std::size_t turn_;
};

class SwapBench {
 public:
  SwapBench(const Flags& flags, const ServerProcess& server, std::string token_file)
      : flags_(flags), server_(server), token_file_(std::move(token_file)) {}

  absl::Status Run() {
    HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(flags_.queries));
    if (queries.n() < kQueries)
      return InvalidArgument(flags_.queries, ": expected ", kQueries, " rows or more, found ",
                             queries.n());
    const auto* first = static_cast<const std::byte*>(queries.Row(0));
    rows_.assign(first, first + kQueries * queries.row_bytes());
    for (const std::string& path : {flags_.index, flags_.other}) {
      HMANN_ASSIGN_OR_RETURN(local_.emplace_back(), LocalHashes(path, queries));
    }
    client::Client admin = Connected();
    HMANN_RETURN_IF_ERROR(admin.WaitReady("bench", {.deadline = 10min}));
    HMANN_ASSIGN_OR_RETURN(const auto status, admin.Status());
    files_[status[0].generation] = 0;
    const double capacity = Calls(0, [&] { Sleep(flags_.seconds / 4); }).rate;
    const double rate = capacity * flags_.share / flags_.clients;
    std::printf("%d clients: %.0f calls/s at most, then %.0f\n", flags_.clients, capacity,
                rate * flags_.clients);
    const Outcome without = Calls(rate, [&] { Sleep(flags_.seconds); });
    absl::Status swapped;
    const Outcome during = Calls(rate, [&] { swapped = Swap(admin); });
    HMANN_RETURN_IF_ERROR(swapped);
    const std::array<std::string, 2> damaged = {token_file_ + ".half", token_file_ + ".wrong"};
    HMANN_RETURN_IF_ERROR(Damage(damaged));
    const Outcome refusing = Calls(rate, [&] { swapped = Refuse(admin, damaged); });
    for (const std::string& path : damaged) std::filesystem::remove(path);
    HMANN_RETURN_IF_ERROR(swapped);
    Print("without swaps", without);
    Print("during swaps", during);
    Print("during refused swaps", refusing);
    const int failed = without.failed + during.failed + refusing.failed;
    const auto wrong = without.wrong + during.wrong + refusing.wrong;
    if (failed + wrong == 0) return absl::OkStatus();
    return Internal(failed, " calls failed, ", wrong, " answers were not those of their file");
  }

 private:
  struct Outcome {
    std::vector<double> latencies;
    double rate = 0;
    int failed = 0;
    std::int64_t answers = 0, wrong = 0;
  };

  static void Sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  client::Client Connected() const {
    return *client::Client::Connect(
        server_.address(), {.own_connection = true, .retry = false, .token_file = token_file_});
  }

  /// Runs all clients, each at `rate` (0: closed loops), while `work` runs.
  template <typename Work>
  Outcome Calls(double rate, const Work& work) {
    std::vector<std::unique_ptr<Caller>> callers;
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    const auto began = Clock::now();
    for (int i = 0; i < flags_.clients; ++i) {
      callers.push_back(std::make_unique<Caller>(Connected(), rows_, static_cast<std::size_t>(i)));
      threads.emplace_back(
          [&stop, rate, caller = callers.back().get()] { caller->Run(rate, stop); });
    }
    work();
    stop = true;
    for (std::thread& thread : threads) thread.join();
    Outcome outcome;
    for (const auto& caller : callers) {
      outcome.latencies.insert(outcome.latencies.end(), caller->latencies.begin(),
                               caller->latencies.end());
      outcome.failed += caller->failed;
      for (const Caller::Got& got : caller->got) {
        const auto file = files_.find(got.generation);
        ++outcome.answers;
        outcome.wrong += file == files_.end() || local_[file->second][got.query] != got.hash;
      }
    }
    outcome.rate = static_cast<double>(outcome.latencies.size()) / SecondsSince(began);
    std::sort(outcome.latencies.begin(), outcome.latencies.end());
    return outcome;
  }

  absl::Status Swap(client::Client& admin) {
    std::vector<double> seconds;
    for (int i = 1; i <= flags_.swaps; ++i) {
      const auto began = Clock::now();
      HMANN_ASSIGN_OR_RETURN(
          const client::Loaded loaded,
          admin.Swap("bench", i % 2 == 0 ? flags_.index : flags_.other, {.deadline = 10min}));
      seconds.push_back(SecondsSince(began));
      files_[loaded.generation] = static_cast<std::size_t>(i % 2);
      if (i == 1 || i % std::max(1, flags_.swaps / 10) == 0) PrintServer(i);
      Sleep(flags_.pause_ms * 1e-3);
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("%d swaps, p50 %.3f s, p99 %.3f s\n", flags_.swaps, Percentile(seconds, 0.5),
                Percentile(seconds, 0.99));
    return absl::OkStatus();
  }

  /// Swaps to a half of the file and to one with a wrong byte, by turns. Both must be
  /// refused. `damaged`: the paths.
  absl::Status Refuse(client::Client& admin, const std::array<std::string, 2>& damaged) {
    int refused = 0;
    for (int i = 0; i < flags_.refused; ++i) {
      refused += admin.Swap("bench", damaged[i % 2], {.deadline = 10min}).ok() ? 0 : 1;
      Sleep(flags_.pause_ms * 1e-3);
    }
    PrintServer(flags_.swaps);
    if (refused == flags_.refused) return absl::OkStatus();
    return Internal(refused, " of ", flags_.refused, " damaged files were refused");
  }

  absl::Status Damage(const std::array<std::string, 2>& paths) const {
    for (const std::string& path : paths) std::filesystem::copy_file(flags_.index, path);
    std::filesystem::resize_file(paths[0], std::filesystem::file_size(paths[0]) / 2);
    HMANN_ASSIGN_OR_RETURN(const IndexFile index, IndexFile::Open(flags_.index));
    const std::span<const std::byte> rows = index.fast_rows();
    std::fstream wrong(paths[1], std::ios::in | std::ios::out | std::ios::binary);
    const std::streamoff middle = &rows[rows.size() / 2] - index.file().bytes().data();
    wrong.seekg(middle);
    const char byte = static_cast<char>(~wrong.get());
    wrong.seekp(middle);
    wrong.put(byte);
    return absl::OkStatus();
  }

  void PrintServer(int swaps) const {
    const std::string proc = absl::StrCat("/proc/", server_.pid());
    const auto entries = [&](const char* of) {
      const std::filesystem::directory_iterator all(proc + of);
      return static_cast<int>(std::distance(begin(all), end(all)));
    };
    std::printf("  after %d swaps: %.1f MB not of files, %d threads, %d descriptors\n", swaps,
                static_cast<double>(AnonymousBytes(server_.pid())) * 1e-6, entries("/task"),
                entries("/fd"));
    std::fflush(stdout);
  }

  static void Print(const char* what, const Outcome& outcome) {
    std::printf(
        "%-22s %8zu calls, %5.0f/s, %d failed; p50 %6.0f us, p99 %6.0f us; %lld answers, "
        "%lld not of their file\n",
        what, outcome.latencies.size(), outcome.rate, outcome.failed,
        Percentile(outcome.latencies, 0.5), Percentile(outcome.latencies, 0.99),
        static_cast<long long>(outcome.answers), static_cast<long long>(outcome.wrong));
  }

  const Flags& flags_;
  const ServerProcess& server_;
  const std::string token_file_;
  std::vector<std::byte> rows_;
  std::vector<std::vector<std::uint64_t>> local_;
  std::map<std::uint64_t, std::size_t> files_;  ///< by generation; written between calls' ends
};

}  // namespace

/// Returns the exit code.
int MeasureSwaps(int argc, char** argv) {
  CLI::App app("What swaps of an index cost the calls of others");
  Flags flags;
  app.add_option("--index", flags.index, "index file")->required();
  app.add_option("--other", flags.other, "another index of the same kind")->required();
  app.add_option("--queries", flags.queries, "vector file, 500 rows or more")->required();
  app.add_option("--slow", flags.slow, "tier of L0");
  app.add_option("--clients", flags.clients, "that search");
  app.add_option("--swaps", flags.swaps, "files that are swapped in");
  app.add_option("--refused", flags.refused, "damaged files");
  app.add_option("--pause", flags.pause_ms, "between two swaps, in ms");
  app.add_option("--share", flags.share, "of capacity that clients ask for");
  app.add_option("--seconds", flags.seconds, "of the measurement without swaps");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const std::string token = absl::StrCat("/tmp/swap_bench.", getpid());
  // The SHA-256 of "operator".
  absl::Status status = WriteTextFile(token, "operator");
  status.Update(WriteTextFile(
      token + ".list", "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 admin\n"));
  if (status.ok()) {
    ServerOptions options;
    options.indexes = {{"bench", flags.index}};
    options.listen = "127.0.0.1:0";
    options.open.slow = flags.slow;
    options.tokens = token + ".list";
    const ServerProcess server(options);
    status = SwapBench(flags, server, token).Run();
  }
  std::filesystem::remove(token);
  std::filesystem::remove(token + ".list");
  if (!status.ok()) std::fprintf(stderr, "swap_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace hmann::server

int main(int argc, char** argv) {
  try {
    return hmann::server::MeasureSwaps(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
