#pragma once

#include <vector>

#include "index/construct/options.h"
#include "index/format/info.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What `info --json` prints, under the names of the surface. `bytes` has an object per
/// structure; a structure without a formula has `formula` null. The hash is a string of
/// 16 hex digits: a JSON number would lose bits.
nlohmann::ordered_json ToJson(const IndexInfo& info);

/// Of an open index.
nlohmann::ordered_json ToJson(const std::vector<Placement>& placements);

/// What `build --json` prints.
nlohmann::ordered_json ToJson(const BuildReport& report);

}  // namespace hmann
