#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace hmann {

/// JSON that others wrote; discarded if `text` is none, or has objects and lists within
/// each other on more than 64 levels: copies, comparisons and dumps of a value descend
/// with its levels, and would overflow the stack. `Json`: nlohmann::json or ordered_json.
template <class Json = nlohmann::json>
Json ParseJson(std::string_view text) {
  constexpr int kMostLevels = 64;
  int levels = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size() && levels <= kMostLevels; ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    levels += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
  }
  if (levels > kMostLevels) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace hmann
