#pragma once

#include <vector>

#include "absl/status/status.h"
#include "hmann/build_options.h"
#include "nlohmann/json.hpp"

namespace hmann::tools {

/// Prints one JSON object and nothing else on stdout. Errors: DATA_LOSS when stdout
/// cannot take it (a full disk, a closed pipe).
absl::Status PrintJson(const nlohmann::ordered_json& object);

/// The phases of a build on stderr: how long each took, and on how many cores.
void PrintPhases(const std::vector<PhaseTime>& phases);

}  // namespace hmann::tools
