/// What is made of the command line as CLI11 knows it: manual pages and completion.
/// Commands of the group "" are nobody's business.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace hmann::tools {

CLI::App* Root(CLI::App* app);

/// Writes hmann-data.1, hmann-data-fetch.1, ... into `folder` (made if it is not there)
/// for `command` and those below it; `above` is what stands before it on the command
/// line. Errors: those of the file system.
absl::Status WriteManual(CLI::App* command, const std::vector<std::string>& above,
                         const std::string& folder);

/// Lines of a `case` of bash over the commands on the line ("data fetch"): `words` of
/// what may follow. Likewise for `command` and below.
std::string CompletionCases(CLI::App* command, const std::vector<std::string>& above);

}  // namespace hmann::tools
