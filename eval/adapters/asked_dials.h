#pragma once

#include "absl/status/statusor.h"
#include "hmann/search_options.h"
#include "nlohmann/json.hpp"

namespace hmann::eval {

/// A setting of a search by hmann, of which every key is a dial. Errors: INVALID_ARGUMENT
/// naming the key.
absl::StatusOr<SearchOptions> AskedDials(const nlohmann::json& setting);

}  // namespace hmann::eval
