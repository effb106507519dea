/// Generates manual pages and shell completion from the command line as CLI11 knows it.
/// Commands of the group "" are hidden from both.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace hmann::tools {

CLI::App* Root(CLI::App* app);

/// Writes hmann-data.1, hmann-data-fetch.1, ... for `command` and its subcommands.
/// `folder` is created if missing. `above` holds the words that precede the command on
/// the command line. Errors: those of the file system.
absl::Status WriteManual(CLI::App* command, const std::vector<std::string>& above,
                         const std::string& folder);

/// The branches of a bash `case` over the commands on the line ("data fetch"). Each sets
/// `words` to the words that may follow. Covers `command` and its subcommands.
std::string CompletionCases(CLI::App* command, const std::vector<std::string>& above);

}  // namespace hmann::tools
