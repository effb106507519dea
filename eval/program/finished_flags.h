#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "eval/benchmark.h"
#include "hmann/client.h"
#include "hmann/hmann.h"

namespace hmann::eval {

/// Indexes that stand: files, opened here, and those of running servers.
struct FinishedFlags {
  std::vector<std::string> indexes;            ///< files
  std::vector<std::string> slow = {"mapped"};  ///< tiers that each is opened on
  std::vector<std::string> servers;            ///< addresses
  client::ConnectOptions connect;

  bool any() const { return !indexes.empty() || !servers.empty(); }
};

/// Declares --index, --slow, --server and how it is reached. `flags` must
/// outlive `app`.
void AddFinished(CLI::App& app, FinishedFlags* flags);

/// Adds a contestant of each index on each tier and on each server, and says in
/// `benchmark` what they are of: shape and metric. Errors: of a file or server that
/// cannot be read; INVALID_ARGUMENT for indexes of different shapes or metrics.
absl::Status AddFinishedContestants(const FinishedFlags& flags, Benchmark* benchmark);

}  // namespace hmann::eval
