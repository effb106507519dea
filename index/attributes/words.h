/// The words of errors in attributes and filters.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "hmann/attributes.h"

namespace hmann {

inline constexpr char kInt64Words[] = "an integer of 64 bits";
inline constexpr char kTimeWords[] = "a time such as 2026-05-01 or 2026-05-01T12:00:00Z";

/// For absl's functions, whose string_view may be a type of its own.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

/// The length of the longest prefix of `text` that is UTF-8.
std::size_t Utf8Prefix(std::string_view text);

/// `text` as messages show it: in quotes and escaped, at most its first 40 bytes.
std::string ShownText(std::string_view text);
/// The same without quotes, for numbers and names.
std::string ShownBare(std::string_view text);

/// The names of the first 20 fields.
std::string ShownNames(std::span<const AttributeField> fields);

/// Errors: INVALID_ARGUMENT unless `name` can name a field; without the file.
absl::Status CheckFieldName(std::string_view name);

}  // namespace hmann
