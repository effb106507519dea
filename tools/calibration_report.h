#pragma once

#include "absl/status/statusor.h"
#include "index/tune/tune.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What default dials are expected to give, a line each for the eye; what went wrong,
/// where it was wanted and failed.
void PrintCalibration(const absl::StatusOr<Calibration>& calibration);

/// The same; null where there is none.
nlohmann::ordered_json ToJson(const absl::StatusOr<Calibration>& calibration);

/// Of an index file, if it has one.
absl::StatusOr<Calibration> ReadCalibration(const std::string& index, const IndexInfo& info);

/// What `hmann info --json` says of the index file `path`.
nlohmann::ordered_json InfoJson(const std::string& path, const IndexInfo& info);

}  // namespace hmann
