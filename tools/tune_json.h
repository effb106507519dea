#pragma once

#include "index/tune/tune.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// What `hmann tune --json` says of a k: `k` `fast` `slow` `cache` `seconds`
/// `learning_queries` `origin` `in_flight` `in_flight_gain` `same_again` `others_busy`
/// `others_steal` `equation`, `choices` (`target`, `met`, and the dials, times and
/// recalls of those that are), `contests` and `front`.
nlohmann::ordered_json ToJson(const TunedForK& tuned);

}  // namespace hmann
