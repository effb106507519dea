/// The words of a filter's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/filter.h"
#include "index/base/errors.h"

namespace hmann {

/// The error for `column`, in bytes from 1.
template <typename... Parts>
absl::Status FilterError(std::size_t column, const Parts&... parts) {
  return InvalidArgument("filter: column ", column, ": ", parts...);
}

/// What stands in the filter, for a message: its beginning in single quotes.
std::string FilterExcerpt(std::string_view text);

struct FilterToken {
  enum class Kind : std::uint8_t {
    kEnd,
    kAnd,
    kOr,
    kNot,
    kIn,
    kIs,
    kNull,
    kHas,
    kField,     ///< `name`
    kArgument,  ///< `name`, without the $
    kValue,     ///< `value`
    kCompare,   ///< `op`
    kOpen,      ///< (
    kClose,     ///< )
    kComma,
  };
  Kind kind = Kind::kEnd;
  FilterNode::Op op = FilterNode::Op::kEqual;
  std::uint32_t column = 1;
  std::string_view text;  ///< as written; empty at the end
  std::string name;
  FilterValue value;
};

/// Reads token after token. `text` is UTF-8 and must outlive the lexer and its tokens. A
/// copy reads on from the same place.
class FilterLexer {
 public:
  explicit FilterLexer(std::string_view text) : text_(text) {}

  /// The next token; kEnd at the end, however often. Errors: INVALID_ARGUMENT.
  absl::StatusOr<FilterToken> Next();

 private:
  absl::Status Read(FilterToken* token);
  absl::Status ReadQuotedName(FilterToken* token);
  absl::Status ReadNumber(FilterToken* token);
  absl::Status ReadString(FilterToken* token);
  absl::Status ReadCodePoint(std::string* text);
  /// Moves over a name, which may be empty.
  std::string_view TakeName();
  std::string_view Rest() const { return text_.substr(at_); }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace hmann
