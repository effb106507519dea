#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "eval/benchmark.h"
#include "hmann/client.h"
#include "hmann/hmann.h"

namespace hmann::eval {

/// Finished indexes: files that are opened here, and indexes of running servers.
struct FinishedFlags {
  std::vector<std::string> indexes;            ///< files
  std::vector<std::string> slow = {"mapped"};  ///< tiers on which each file is opened
  std::vector<std::string> servers;            ///< addresses
  client::ConnectOptions connect;

  bool any() const { return !indexes.empty() || !servers.empty(); }
};

/// Declares --index, --slow, --server and the connection flags. `flags` must outlive
/// `app`.
void AddFinished(CLI::App& app, FinishedFlags* flags);

/// Adds a system for each index on each tier and for each server, and sets shape and
/// metric in `benchmark`. Errors: of a file or server that cannot be read;
/// INVALID_ARGUMENT for indexes of different shapes or metrics.
absl::Status AddFinishedSystems(const FinishedFlags& flags, Benchmark* benchmark);

}  // namespace hmann::eval
