#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "datasets/vector_file.h"
#include "eval/benchmark.h"

namespace hmann {

/// What is sent to a server, at times that are given beforehand, whether or not it
/// answers.
struct LoadOptions {
  std::string server;  ///< as client::Client::Connect takes it
  std::string index;
  client::ConnectOptions connect;
  SearchOptions search;
  std::uint32_t batch = 1;  ///< queries of a request; 1: Search, more: SearchBatch
  bool stream = false;      ///< SearchStream, one of each connection
  bool empty = false;       ///< List instead of searches: what a call costs by itself
  double rate = 100;        ///< requests a second, on the mean; times between are exponential
  std::chrono::nanoseconds time = std::chrono::seconds(10);     ///< requests arrive for so long
  std::chrono::nanoseconds deadline = std::chrono::seconds(1);  ///< of each, from its arrival
  int connections = 8;
  std::uint64_t seed = 1;
  int server_pid = 0;  ///< of this machine: its CPU time is measured; 0: it is not
};

struct LoadReport {
  std::uint64_t offered = 0;                        ///< requests
  std::map<absl::StatusCode, std::uint64_t> ended;  ///< of these, by their end
  /// Of requests that were answered, from when they arrived, not from when they were
  /// sent: one that had to wait for a free thread here has waited, too (no coordinated
  /// omission). Ascending.
  std::vector<double> latency_us;
  double seconds = 0;  ///< from the first arrival to the last end
  double client_cpu_seconds = 0, server_cpu_seconds = 0;
};

/// Queries are taken in turn. Blocks until every request has ended. Errors:
/// INVALID_ARGUMENT for options that cannot be; NOT_FOUND for a pid of no process; of the
/// first call, which tells whether the server has the index.
absl::StatusOr<LoadReport> OfferLoad(const VectorFile& queries, const LoadOptions& options);

/// Load at several rates, as a benchmark: a line of results.jsonl (results.h) for each
/// setting, rate and round.
struct LoadBenchmark {
  LoadOptions load;  ///< but for rate and dials, of which k counts
  std::string queries;
  std::vector<double> rates = {100};
  Json settings = {Json::object()};  ///< of dials; an array
  int rounds = 1;
  std::string folder;                            ///< of results.jsonl; "": none is written
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned; looked at between runs
};

/// `say` gets a line for the eye after each run. Errors: those of OfferLoad and of files;
/// INVALID_ARGUMENT naming a key that is no dial; CANCELLED.
absl::StatusOr<std::vector<Json>> RunLoad(const LoadBenchmark& benchmark, const Say& say);

}  // namespace hmann
