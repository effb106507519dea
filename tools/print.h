#pragma once

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// Prints one JSON object and nothing else on stdout. Errors: DATA_LOSS when stdout
/// cannot take it (a full disk, a closed pipe).
absl::Status PrintJson(const nlohmann::ordered_json& object);

}  // namespace hmann
