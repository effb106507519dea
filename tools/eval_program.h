/// hmann-eval, the program behind `hmann eval`. It lies at ../libexec/hmann/hmann-eval,
/// relative to the folder of the running program, both as built and as installed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hmann::tools {

/// Replaces this process with hmann-eval and `arguments`. Returns only on an error:
/// NOT_FOUND, which names the path and says what to install, or the reason why it cannot
/// run.
absl::Status BecomeEvalProgram(const std::vector<std::string>& arguments);

/// Runs hmann-eval to its end, on this program's stdout and stderr. Errors: as above;
/// INTERNAL when it exits with a code other than 0.
absl::Status RunEvalProgram(const std::vector<std::string>& arguments);

}  // namespace hmann::tools
