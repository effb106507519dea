#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace hmann {

/// A literal of a filter.
using FilterValue = std::variant<std::int64_t, double, bool, std::string>;

/// Values that the text of a filter names as $name: exactly one where a value stands, any
/// number from one on in `in $name` and `has(tags, $name)`.
using FilterArguments = std::map<std::string, std::vector<FilterValue>, std::less<>>;

}  // namespace hmann
