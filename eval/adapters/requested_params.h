#pragma once

#include "absl/status/statusor.h"
#include "hmann/search_params.h"
#include "nlohmann/json.hpp"

namespace hmann::eval {

/// The parameters of an hmann search setting, whose every key is a parameter. Errors:
/// INVALID_ARGUMENT naming the key.
absl::StatusOr<SearchParams> RequestedParams(const nlohmann::json& setting);

}  // namespace hmann::eval
