#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "server/options.h"

namespace hmann::tools {

/// The options of `hmann serve`.
struct ServeFlags {
  server::ServerOptions server;
  std::vector<std::string> indexes;
  std::string config;
  std::chrono::nanoseconds drain = std::chrono::seconds(5);
  std::string log_level = "info";
  bool json = false;
  /// The options that a running server cannot change, as they were given.
  std::map<std::string, std::vector<std::string>> fixed;
};

/// Declares the options. `flags` must outlive `app`.
void AddServeFlags(CLI::App& app, ServeFlags* flags);

/// The options of a command line, which was parsed by an app of AddServeFlags, and those
/// of a configuration file that it leaves open. `config`: path of the file; empty: none.
/// Any thread may call it, and waits as long as storage hangs. Errors: those of the file
/// system; INVALID_ARGUMENT for a file above 1 MiB, for what is not valid (with file,
/// line and column), and from ServerOptions::Validate.
absl::StatusOr<ServeFlags> ReadServeFlags(const CLI::App& line, const std::string& config);

/// Errors: FAILED_PRECONDITION naming an option that a running server cannot change.
absl::Status CheckFixed(const ServeFlags& before, const ServeFlags& now);

}  // namespace hmann::tools
