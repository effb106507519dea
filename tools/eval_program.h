/// hmann-eval, the program behind `hmann eval`: ../libexec/hmann/hmann-eval from the
/// folder of the running program, as built and as installed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hmann::tools {

/// This process becomes hmann-eval with `arguments`; returns only the error: NOT_FOUND,
/// which names the path and says what to install, or why it cannot run.
absl::Status BecomeEvalProgram(const std::vector<std::string>& arguments);

/// Runs it to its end, on this program's stdout and stderr. Errors: as above; INTERNAL
/// when it exits with another code than 0.
absl::Status RunEvalProgram(const std::vector<std::string>& arguments);

}  // namespace hmann::tools
