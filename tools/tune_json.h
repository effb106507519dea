#pragma once

#include "index/tune/tune_index.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What `hmann tune --json` says of one k: where and from what it was learned, `choices`,
/// `front`, `check` if there was one, and with `settings` every setting of the grid:
/// dials, `fate`, predicted, measured, `front`, the targets that it is `chosen` for.
nlohmann::ordered_json TuningJson(const TuningRun::ForK& of_k, const TunedEntry& entry,
                                  bool settings);

}  // namespace hmann
