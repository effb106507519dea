#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "eval/benchmark.h"
#include "hmann/client.h"

namespace hmann::eval {

/// The requests to send to a server, at times fixed in advance, whether or not it
/// answers.
struct LoadOptions {
  std::string server;  ///< as client::Client::Connect takes it
  std::string index;
  client::ConnectOptions connect;
  /// Requests per second on average, with exponential intervals.
  std::vector<double> rates = {100};
  Json settings = {Json::object()};  ///< of parameters; an array
  std::uint32_t k = 10;              ///< neighbors per query
  std::uint32_t batch = 1;           ///< per request; 1: Search; more: SearchBatch
  bool stream = false;               ///< SearchStream, one per connection
  std::chrono::nanoseconds time = std::chrono::seconds(10);     ///< period in which requests arrive
  std::chrono::nanoseconds deadline = std::chrono::seconds(1);  ///< of each, from its arrival
  int connections = 8;
  int server_pid = 0;  ///< local; its CPU time is measured; 0: not
};

/// Sends requests at a rate and returns the outcome: `offered`, `answered`, `failed` (by
/// code), latency of answered requests, and CPU time per request. Latency counts from
/// arrival, not from sending. So a request that waited here for a free thread includes
/// that wait (no coordinated omission).
///
/// Queries are taken in turn, the same at every call. Blocks until every request has
/// ended. Errors: INVALID_ARGUMENT for impossible options; NOT_FOUND for a pid without a
/// process; those of the first call, which checks that the server has the index.
absl::StatusOr<Json> OfferLoad(const VectorFile& queries, const LoadOptions& options,
                               const SearchParams& search, double rate);

/// Runs each setting at each rate, in the rounds of `benchmark`, and returns one line
/// (results.h) for each. `benchmark` also gives queries, folder (of results.jsonl; "":
/// not written) and cancelled. `say` gets a human-readable line after each run. Errors:
/// those of OfferLoad and of files; INVALID_ARGUMENT naming a key that is no parameter;
/// CANCELLED.
absl::StatusOr<std::vector<Json>> RunLoad(const LoadOptions& options, Benchmark benchmark,
                                          const Say& say);

}  // namespace hmann::eval
