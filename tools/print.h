#pragma once

#include <vector>

#include "absl/status/status.h"
#include "hmann/build_options.h"
#include "index/base/json_reader.h"

namespace hmann::tools {

/// Prints one JSON object on stdout and nothing else. Errors: DATA_LOSS when stdout
/// cannot take it (a full disk, a closed pipe).
absl::Status PrintJson(const nlohmann::ordered_json& object);

/// Prints the phases of a build on stdout: how long each took, and on how many cores.
void PrintPhases(const std::vector<PhaseTime>& phases);

}  // namespace hmann::tools
