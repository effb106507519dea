#pragma once

#include "nlohmann/json.hpp"

namespace hmann::eval {

/// What a figure depends on besides the code: `cpu`, `cores`, `simd` (level that hmann's
/// kernels take), `governor`, `huge_pages` (transparent), `kernel`, `system`,
/// `memory_bytes`, `compiler`, `load` (of the last minute, at the time of the call),
/// `time` (UTC, ISO 8601). What a machine does not tell is "unknown".
nlohmann::ordered_json DescribeEnvironment();

}  // namespace hmann::eval
