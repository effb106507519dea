#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace hmann {

/// How a cache chooses which node records of the slow tier it holds; see BlockCache.
enum class CachePolicy : std::uint8_t { kNone = 0, kStatic = 1, kDynamic = 2 };
std::string_view Name(CachePolicy policy);  ///< "none", "static", "dynamic"
absl::StatusOr<CachePolicy> ParseCachePolicy(std::string_view name);

}  // namespace hmann
