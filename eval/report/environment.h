#pragma once

#include "nlohmann/json.hpp"

namespace hmann::eval {

/// What a figure depends on besides the code: `cpu`, `cores`, `simd` (the level of
/// hmann's kernels), `governor`, `huge_pages` (transparent), `kernel`, `system`,
/// `memory_bytes`, `compiler`, `load` (over the last minute before the call), `time`
/// (UTC, ISO 8601). Values that the machine does not report are "unknown".
nlohmann::ordered_json DescribeEnvironment();

}  // namespace hmann::eval
