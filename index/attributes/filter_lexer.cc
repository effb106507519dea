#include "index/attributes/filter_lexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using FilterTokenKind = FilterToken::Kind;

struct FilterKeyword {
  std::string_view word;
  FilterTokenKind kind;
  bool value = false;  ///< of kValue
};
constexpr FilterKeyword kFilterKeywords[] = {
    {"and", FilterTokenKind::kAnd},
    {"or", FilterTokenKind::kOr},
    {"not", FilterTokenKind::kNot},
    {"in", FilterTokenKind::kIn},
    {"is", FilterTokenKind::kIs},
    {"null", FilterTokenKind::kNull},
    {"has", FilterTokenKind::kHas},
    {"true", FilterTokenKind::kValue, true},
    {"false", FilterTokenKind::kValue, false},
};

struct FilterSign {
  std::string_view sign;
  FilterTokenKind kind;
  FilterNode::Op op = FilterNode::Op::kEqual;  ///< of kCompare
};
/// A sign stands before its beginnings.
constexpr FilterSign kFilterSigns[] = {
    {"(", FilterTokenKind::kOpen},
    {")", FilterTokenKind::kClose},
    {",", FilterTokenKind::kComma},
    {"==", FilterTokenKind::kCompare, FilterNode::Op::kEqual},
    {"=", FilterTokenKind::kCompare, FilterNode::Op::kEqual},
    {"!=", FilterTokenKind::kCompare, FilterNode::Op::kNotEqual},
    {"<>", FilterTokenKind::kCompare, FilterNode::Op::kNotEqual},
    {"<=", FilterTokenKind::kCompare, FilterNode::Op::kLessEqual},
    {"<", FilterTokenKind::kCompare, FilterNode::Op::kLess},
    {">=", FilterTokenKind::kCompare, FilterNode::Op::kGreaterEqual},
    {">", FilterTokenKind::kCompare, FilterNode::Op::kGreater},
};

bool BeginsFilterName(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool IsFilterDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool ContinuesFilterName(char c) { return BeginsFilterName(c) || IsFilterDigit(c) || c == '.'; }
bool IsFilterControl(char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }

const FilterKeyword* FindFilterKeyword(std::string_view word) {
  const auto same = [](char a, char b) {
    return absl::ascii_tolower(static_cast<unsigned char>(a)) == b;
  };
  for (const FilterKeyword& keyword : kFilterKeywords) {
    if (std::equal(word.begin(), word.end(), keyword.word.begin(), keyword.word.end(), same))
      return &keyword;
  }
  return nullptr;
}

/// The character that `text` begins with, for a message.
std::string ShowFilterCharacter(std::string_view text) {
  if (text.empty()) return "the end";
  const std::size_t bytes = Utf8CharacterBytes(text);
  if (bytes > 0 && !IsFilterControl(text[0])) return FilterExcerpt(text.substr(0, bytes));
  return absl::StrCat("the byte 0x",
                      absl::Hex(static_cast<unsigned char>(text[0]), absl::kZeroPad2));
}

absl::Status CheckFieldBytes(std::size_t column, std::size_t bytes) {
  if (bytes > 0 && bytes <= kMostFieldBytes) return absl::OkStatus();
  return FilterError(column, "expected a field's name of 1 to ", kMostFieldBytes, " bytes, found ",
                     bytes);
}

enum class FilterNumber : std::uint8_t { kNone, kInteger, kFloat };

/// Which number `word` is: a sign or none, digits, a fraction or none, an exponent or
/// none.
FilterNumber KindOfNumber(std::string_view word) {
  std::size_t at = 0;
  const auto skip = [&](std::string_view any) {
    const bool found = at < word.size() && any.find(word[at]) != std::string_view::npos;
    at += found ? 1 : 0;
    return found;
  };
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < word.size() && IsFilterDigit(word[at])) ++at;
    return at > begin;
  };
  skip("+-");
  if (!digits()) return FilterNumber::kNone;
  const bool fraction = skip(".");
  if (fraction && !digits()) return FilterNumber::kNone;
  const bool exponent = skip("eE");
  if (exponent) skip("+-");
  if ((exponent && !digits()) || at < word.size()) return FilterNumber::kNone;
  return fraction || exponent ? FilterNumber::kFloat : FilterNumber::kInteger;
}

/// The number of the escape \uXXXX that `text` begins with.
std::optional<std::uint32_t> CodeUnit(std::string_view text) {
  constexpr std::size_t kBytes = 6;
  if (text.size() < kBytes || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  for (const char c : text.substr(2, 4)) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    const int digit =
        IsFilterDigit(c) ? c - '0' : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10;
    unit = unit * 16 + static_cast<std::uint32_t>(digit);
  }
  return unit;
}

void AppendUtf8(std::uint32_t code, std::string* text) {
  const auto add = [text](std::uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

}  // namespace

std::size_t Utf8CharacterBytes(std::string_view text) {
  const auto byte = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Too long for what it encodes, half of a surrogate pair, or above U+10FFFF.
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return wrong ? 0 : bytes;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string FilterExcerpt(std::string_view text) {
  constexpr std::size_t kMost = 40;
  constexpr std::string_view kMore = "...";
  const bool all = text.size() <= kMost;
  const std::size_t most = all ? kMost : kMost - kMore.size();
  std::string shown = "'";
  while (!text.empty()) {
    const std::size_t bytes = Utf8CharacterBytes(text), used = std::max<std::size_t>(bytes, 1);
    if (shown.size() - 1 + used > most) break;
    if (bytes == 0 || IsFilterControl(text[0]))
      shown += '?';
    else
      shown += text.substr(0, bytes);
    text.remove_prefix(used);
  }
  if (!all) shown += kMore;
  return shown + "'";
}

bool IsPlainFieldName(std::string_view name) {
  return !name.empty() && BeginsFilterName(name[0]) &&
         std::all_of(name.begin(), name.end(), ContinuesFilterName) &&
         FindFilterKeyword(name) == nullptr;
}

absl::StatusOr<FilterToken> FilterLexer::Next() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
  const std::size_t begin = at_;
  FilterToken token;
  token.column = static_cast<std::uint32_t>(begin + 1);
  HMANN_RETURN_IF_ERROR(Read(&token));
  token.text = text_.substr(begin, at_ - begin);
  return token;
}

absl::Status FilterLexer::Read(FilterToken* token) {
  if (at_ == text_.size()) return absl::OkStatus();
  const char c = text_[at_];
  if (BeginsFilterName(c)) return ReadWord(token);
  if (c == '"' || c == '\'') return ReadString(token);
  if (c == '`') return ReadQuotedName(token);
  if (c == '$') return ReadArgument(token);
  if (IsFilterDigit(c) || c == '+' || c == '-' || c == '.') return ReadNumber(token);
  return ReadSign(token);
}

std::size_t FilterLexer::NameBytes(std::size_t from) const {
  const std::string_view rest = text_.substr(from);
  return static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), ContinuesFilterName) -
                                  rest.begin());
}

absl::Status FilterLexer::ReadWord(FilterToken* token) {
  const std::string_view word = text_.substr(at_, NameBytes(at_));
  at_ += word.size();
  if (const FilterKeyword* keyword = FindFilterKeyword(word); keyword != nullptr) {
    token->kind = keyword->kind;
    token->value = keyword->value;
    return absl::OkStatus();
  }
  token->kind = FilterTokenKind::kField;
  token->name = word;
  return CheckFieldBytes(token->column, word.size());
}

absl::Status FilterLexer::ReadQuotedName(FilterToken* token) {
  token->kind = FilterTokenKind::kField;
  for (++at_; at_ < text_.size(); ++at_) {
    const std::size_t end = std::min(text_.find('`', at_), text_.size());
    while (at_ < end) {
      const std::size_t bytes = Utf8CharacterBytes(Rest());
      if (bytes == 0)
        return FilterError(at_ + 1, "expected UTF-8, found ", ShowFilterCharacter(Rest()));
      token->name += text_.substr(at_, bytes);
      at_ += bytes;
    }
    if (at_ == text_.size()) break;
    ++at_;
    if (!Rest().starts_with('`')) return CheckFieldBytes(token->column, token->name.size());
    token->name += '`';
  }
  return FilterError(token->column, "the name that begins here has no end");
}

absl::Status FilterLexer::ReadArgument(FilterToken* token) {
  ++at_;
  if (at_ == text_.size() || !BeginsFilterName(text_[at_]))
    return FilterError(at_ + 1, "expected a name after $, found ", ShowFilterCharacter(Rest()));
  token->kind = FilterTokenKind::kArgument;
  token->name = text_.substr(at_, NameBytes(at_));
  at_ += token->name.size();
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadNumber(FilterToken* token) {
  std::size_t end = at_ + 1;
  end += NameBytes(end);
  const bool exponent = end > at_ + 1 && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
  if (exponent && end < text_.size() && (text_[end] == '+' || text_[end] == '-')) {
    ++end;
    end += NameBytes(end);
  }
  const std::string_view word = text_.substr(at_, end - at_);
  const absl::string_view digits(word.data(), word.size());
  at_ = end;
  token->kind = FilterTokenKind::kValue;
  const FilterNumber kind = KindOfNumber(word);
  if (kind == FilterNumber::kNone)
    return FilterError(token->column, "expected a number, found ", FilterExcerpt(word));
  if (kind == FilterNumber::kInteger) {
    using Limits = std::numeric_limits<std::int64_t>;
    if (absl::SimpleAtoi(digits, &token->value.emplace<std::int64_t>())) return absl::OkStatus();
    return FilterError(token->column, "expected an integer from ", Limits::min(), " to ",
                       Limits::max(), ", found ", FilterExcerpt(word));
  }
  double number = 0;
  if (!absl::SimpleAtod(digits, &number) || !std::isfinite(number))
    return FilterError(token->column, "expected a finite number, found ", FilterExcerpt(word));
  token->value = number == 0 ? 0.0 : number;  // not -0.0
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadString(FilterToken* token) {
  const char quote = text_[at_];
  token->kind = FilterTokenKind::kValue;
  std::string& value = token->value.emplace<std::string>();
  for (++at_; at_ < text_.size() && text_[at_] != quote;)
    HMANN_RETURN_IF_ERROR(ReadCharacter(&value));
  if (at_ == text_.size())
    return FilterError(token->column, "the string that begins here has no end");
  ++at_;
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadCharacter(std::string* text) {
  if (text_[at_] == '\\') return ReadEscape(text);
  if (static_cast<unsigned char>(text_[at_]) < 0x20) {
    return FilterError(at_ + 1, "expected a control character as \\n, \\t, \\r or \\uXXXX, found ",
                       ShowFilterCharacter(Rest()));
  }
  const std::size_t bytes = Utf8CharacterBytes(Rest());
  if (bytes == 0)
    return FilterError(at_ + 1, "expected UTF-8, found ", ShowFilterCharacter(Rest()));
  *text += text_.substr(at_, bytes);
  at_ += bytes;
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadEscape(std::string* text) {
  constexpr std::string_view kEscapes = "\"'\\ntr", kMeant = "\"'\\\n\t\r";
  if (at_ + 1 == text_.size()) {  // the string has no end
    ++at_;
    return absl::OkStatus();
  }
  if (text_[at_ + 1] == 'u') return ReadCodePoint(text);
  const std::size_t escape = kEscapes.find(text_[at_ + 1]);
  if (escape == std::string_view::npos) {
    return FilterError(at_ + 1, R"(expected \", \', \\, \n, \t, \r or \uXXXX, found \ and )",
                       ShowFilterCharacter(text_.substr(at_ + 1)));
  }
  text->push_back(kMeant[escape]);
  at_ += 2;
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadCodePoint(std::string* text) {
  constexpr std::size_t kBytes = 6;
  constexpr std::uint32_t kHigh = 0xD800, kLow = 0xDC00, kEnd = 0xE000;
  const std::string_view written = Rest().substr(0, kBytes);
  const std::optional<std::uint32_t> unit = CodeUnit(written);
  if (!unit.has_value()) {
    return FilterError(at_ + 1, "expected \\u and four hexadecimal digits, found ",
                       FilterExcerpt(written));
  }
  std::uint32_t code = *unit;
  at_ += kBytes;
  if (code >= kHigh && code < kEnd) {
    const std::uint32_t low = CodeUnit(Rest()).value_or(0);
    if (code >= kLow || low < kLow || low >= kEnd) {
      return FilterError(at_ + 1 - kBytes, "expected a pair of surrogates, found only ",
                         FilterExcerpt(written));
    }
    code = 0x10000 + ((code - kHigh) << 10) + (low - kLow);
    at_ += kBytes;
  }
  AppendUtf8(code, text);
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadSign(FilterToken* token) {
  for (const FilterSign& sign : kFilterSigns) {
    if (!Rest().starts_with(sign.sign)) continue;
    token->kind = sign.kind;
    token->op = sign.op;
    at_ += sign.sign.size();
    return absl::OkStatus();
  }
  return FilterError(token->column, "expected a name, a value or an operator, found ",
                     ShowFilterCharacter(Rest()));
}

}  // namespace hmann
