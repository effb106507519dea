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

/// What is sent to a server, at times that are given beforehand, whether or not it
/// answers.
struct LoadOptions {
  std::string server;  ///< as client::Client::Connect takes it
  std::string index;
  client::ConnectOptions connect;
  std::vector<double> rates = {100};  ///< requests a second, on the mean; times between are
                                      ///< exponential
  Json settings = {Json::object()};   ///< of dials; an array
  std::uint32_t k = 10;               ///< neighbours of a query
  std::uint32_t batch = 1;            ///< queries of a request; 1: Search, more: SearchBatch
  bool stream = false;                ///< SearchStream, one of each connection
  bool empty = false;                 ///< List instead of searches: what a call costs by itself
  std::chrono::nanoseconds time = std::chrono::seconds(10);     ///< requests arrive for so long
  std::chrono::nanoseconds deadline = std::chrono::seconds(1);  ///< of each, from its arrival
  int connections = 8;
  int server_pid = 0;  ///< of this machine: its CPU time is measured; 0: it is not
};

/// What became of requests at a rate: `offered`, `answered`, `failed` (by code), the time
/// of those answered from when they arrived, not from when they were sent: one that had
/// to wait for a free thread here has waited, too (no coordinated omission); CPU time a
/// request. Queries are taken in turn, the same at every call. Blocks until every request
/// has ended. Errors: INVALID_ARGUMENT for options that cannot be; NOT_FOUND for a pid of
/// no process; of the first call, which tells whether the server has the index.
absl::StatusOr<Json> OfferLoad(const VectorFile& queries, const LoadOptions& options,
                               const SearchOptions& search, double rate);

/// Each setting at each rate, in `rounds` of `benchmark`, of which queries, folder (of
/// results.jsonl; "": none is written) and cancelled count: a line (results.h) each.
/// `say` gets a line for the eye after each run. Errors: those of OfferLoad and of files;
/// INVALID_ARGUMENT naming a key that is no dial; CANCELLED.
absl::StatusOr<std::vector<Json>> RunLoad(const LoadOptions& options, Benchmark benchmark,
                                          const Say& say);

}  // namespace hmann::eval
