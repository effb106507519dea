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

inline constexpr std::size_t kMostFieldBytes = 256;

/// The error for `column`, in bytes from 1.
template <typename... Parts>
absl::Status FilterError(std::size_t column, const Parts&... parts) {
  return InvalidArgument("filter: column ", column, ": ", parts...);
}

/// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none. `text`
/// is not empty.
std::size_t Utf8CharacterBytes(std::string_view text);
bool IsUtf8(std::string_view text);

/// `text` in single quotes for a message: at most 40 bytes of it, valid UTF-8, without
/// control characters.
std::string FilterExcerpt(std::string_view text);

/// Whether a field of this name needs no backquotes.
bool IsPlainFieldName(std::string_view name);

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
  std::string_view text;  ///< as written
  std::string name;
  FilterValue value;
};

/// Reads token after token. `text` must outlive the lexer and its tokens. A copy reads on
/// from the same place.
class FilterLexer {
 public:
  explicit FilterLexer(std::string_view text) : text_(text) {}

  /// The next token; kEnd at the end, however often. Errors: INVALID_ARGUMENT.
  absl::StatusOr<FilterToken> Next();

 private:
  absl::Status Read(FilterToken* token);
  absl::Status ReadWord(FilterToken* token);
  absl::Status ReadQuotedName(FilterToken* token);
  absl::Status ReadArgument(FilterToken* token);
  absl::Status ReadNumber(FilterToken* token);
  absl::Status ReadString(FilterToken* token);
  absl::Status ReadSign(FilterToken* token);
  /// Reads a character or an escape of a string or quoted name, and appends it to `text`.
  absl::Status ReadCharacter(std::string* text);
  absl::Status ReadEscape(std::string* text);
  absl::Status ReadCodePoint(std::string* text);

  std::string_view Rest() const { return text_.substr(at_); }
  /// How many bytes at `from` may be in a name.
  std::size_t NameBytes(std::size_t from) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace hmann
