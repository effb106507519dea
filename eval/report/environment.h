#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace hmann::eval {

/// What a figure depends on besides the code: `cpu`, `cores`, `simd` (the level of
/// hmann's kernels), `governor`, `huge_pages` (transparent), `kernel`, `system`,
/// `memory_bytes`, `compiler`, `load` (over the last minute before the call), `time`
/// (UTC, ISO 8601) and `command` (of this process). Values that the machine does not
/// report are "unknown".
nlohmann::ordered_json DescribeEnvironment();

/// The words of a process, its program first, as a shell takes them: without the
/// program's folder, and `hmann eval` for hmann-eval.
std::string ShellCommand(std::vector<std::string> words);

}  // namespace hmann::eval
