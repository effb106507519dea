/// The default settings of an hmann curve.
#pragma once

#include "nlohmann/json.hpp"

namespace hmann::eval {

/// Settings of each mode that an index supports, from a recall far below 0.9 to one far
/// above 0.99. `codes`: the index has codes. `drive`: its L0 is read in blocks.
nlohmann::json Ladder(bool inner_product, bool codes, bool drive);

}  // namespace hmann::eval
