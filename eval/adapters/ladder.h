/// What a curve of hmann is measured at where nobody says.
#pragma once

#include "nlohmann/json.hpp"

namespace hmann::eval {

/// Settings of each walk that an index can do: from a recall far below 0.9 to one far
/// above 0.99. `codes`: it has some. `drive`: its L0 is read by blocks.
nlohmann::json Ladder(bool inner_product, bool codes, bool drive);

}  // namespace hmann::eval
