#include "index/attributes/filter_lexer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "index/attributes/words.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Token = FilterToken::Kind;
using Op = FilterNode::Op;

/// Signs and keywords. A sign stands before its beginnings. The comma is the most
/// frequent one in long lists.
struct FixedToken {
  std::string_view text;
  Token kind;
  Op op = Op::kEqual;  ///< of kCompare
  bool value = false;  ///< of kValue
};
constexpr FixedToken kFixedTokens[] = {
    {"(", Token::kOpen},
    {")", Token::kClose},
    {",", Token::kComma},
    {"==", Token::kCompare, Op::kEqual},
    {"=", Token::kCompare, Op::kEqual},
    {"!=", Token::kCompare, Op::kNotEqual},
    {"<>", Token::kCompare, Op::kNotEqual},
    {"<=", Token::kCompare, Op::kLessEqual},
    {"<", Token::kCompare, Op::kLess},
    {">=", Token::kCompare, Op::kGreaterEqual},
    {">", Token::kCompare, Op::kGreater},
    {"and", Token::kAnd},
    {"or", Token::kOr},
    {"not", Token::kNot},
    {"in", Token::kIn},
    {"is", Token::kIs},
    {"null", Token::kNull},
    {"has", Token::kHas},
    {"true", Token::kValue, Op::kEqual, true},
    {"false", Token::kValue, Op::kEqual, false},
};

bool IsFilterDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool BeginsFilterName(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool ContinuesFilterName(char c) { return BeginsFilterName(c) || IsFilterDigit(c) || c == '.'; }

}  // namespace

std::string FilterExcerpt(std::string_view text) {
  if (text.empty()) return "the end";
  const std::string shown = ShownBare(text);
  return absl::StrCat("'", absl::StrReplaceAll(shown, {{R"(\\)", R"(\)"}, {R"(\")", "\""}}), "'");
}

absl::StatusOr<FilterToken> FilterLexer::Next() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
  const std::size_t begin = at_;
  FilterToken token;
  token.column = static_cast<std::uint32_t>(begin + 1);
  if (begin < text_.size()) HMANN_RETURN_IF_ERROR(Read(&token));
  if (token.kind == Token::kField) {
    if (const absl::Status named = CheckFieldName(token.name); !named.ok())
      return FilterError(token.column, named.message());
  }
  token.text = text_.substr(begin, at_ - begin);
  return token;
}

absl::Status FilterLexer::Read(FilterToken* token) {
  const char c = text_[at_];
  if (c == '"' || c == '\'') return ReadString(token);
  if (c == '`') return ReadQuotedName(token);
  if (IsFilterDigit(c) || c == '+' || c == '-' || c == '.') return ReadNumber(token);
  if (c == '$') ++at_;
  const std::string_view name = TakeName();
  for (const FixedToken& fixed : kFixedTokens) {
    const std::string_view found = name.empty() ? Rest().substr(0, fixed.text.size()) : name;
    if (c == '$' || !absl::EqualsIgnoreCase(AbslView(found), AbslView(fixed.text))) continue;
    if (name.empty()) at_ += fixed.text.size();
    token->kind = fixed.kind;
    token->op = fixed.op;
    token->value = fixed.value;
    return absl::OkStatus();
  }
  if (name.empty()) {
    return FilterError(at_ + 1,
                       c == '$' ? "expected a name after $, found "
                                : "expected a name, a value or an operator, found ",
                       FilterExcerpt(Rest()));
  }
  token->kind = c == '$' ? Token::kArgument : Token::kField;
  token->name = name;
  return absl::OkStatus();
}

std::string_view FilterLexer::TakeName() {
  const std::size_t begin = at_;
  if (at_ < text_.size() && !BeginsFilterName(text_[at_])) return {};
  while (at_ < text_.size() && ContinuesFilterName(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

absl::Status FilterLexer::ReadQuotedName(FilterToken* token) {
  token->kind = Token::kField;
  while (true) {
    const std::size_t begin = ++at_;
    at_ = text_.find('`', at_);
    if (at_ == text_.npos)
      return FilterError(token->column, "the name that begins here has no end");
    token->name += text_.substr(begin, at_ - begin);
    if (text_.substr(++at_, 1) != "`") return absl::OkStatus();
    token->name += '`';
  }
}

absl::Status FilterLexer::ReadNumber(FilterToken* token) {
  const std::size_t begin = at_;
  const auto is_sign = [](char c) { return c == '+' || c == '-'; };
  const auto is_exponent = [](char c) { return c == 'e' || c == 'E'; };
  for (++at_; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (!ContinuesFilterName(c) && !(is_sign(c) && is_exponent(text_[at_ - 1]))) break;
  }
  const std::string_view word = text_.substr(begin, at_ - begin);
  const std::size_t first = is_sign(word[0]) ? 1 : 0, point = word.find('.');
  const auto is_digit = [word](std::size_t i) { return i < word.size() && IsFilterDigit(word[i]); };
  token->kind = Token::kValue;
  if (word.find_first_not_of("0123456789", first) == word.npos) {
    if (absl::SimpleAtoi(AbslView(word), &token->value.emplace<std::int64_t>()))
      return absl::OkStatus();
    return FilterError(token->column, "expected ", kInt64Words, ", found ", FilterExcerpt(word));
  }
  // absl also takes 0x1F, inf, .5 and 5. for numbers.
  const bool usual = word.find_first_not_of("0123456789.eE+-") == word.npos && is_digit(first) &&
                     (point == word.npos || (is_digit(point - 1) && is_digit(point + 1)));
  double number = 0;
  if (!usual || !absl::SimpleAtod(AbslView(word), &number) || !std::isfinite(number))
    return FilterError(token->column, "expected a finite number, found ", FilterExcerpt(word));
  token->value = number == 0 ? 0.0 : number;  // not -0.0
  return absl::OkStatus();
}

absl::Status FilterLexer::ReadString(FilterToken* token) {
  constexpr std::string_view kEscapes = "\"'\\ntr", kMeant = "\"'\\\n\t\r";
  const char quote = text_[at_++];
  token->kind = Token::kValue;
  std::string& value = token->value.emplace<std::string>();
  while (at_ < text_.size() && text_[at_] != quote) {
    const char c = text_[at_];
    if (c != '\\' && static_cast<unsigned char>(c) >= 0x20) {
      value += c;
      ++at_;
    } else if (Rest().starts_with("\\u")) {
      HMANN_RETURN_IF_ERROR(ReadCodePoint(&value));
    } else {
      const std::size_t escape = Rest().size() < 2 ? kEscapes.npos : kEscapes.find(Rest()[1]);
      if (c != '\\' || escape == kEscapes.npos) {
        return FilterError(at_ + 1, R"(expected text or one of \" \' \\ \n \t \r \uXXXX, found )",
                           FilterExcerpt(Rest()));
      }
      value += kMeant[escape];
      at_ += 2;
    }
  }
  if (at_ == text_.size())
    return FilterError(token->column, "the string that begins here has no end");
  ++at_;
  return absl::OkStatus();
}

/// Reads \uXXXX, or two of them that are the halves of a character in UTF-16.
absl::Status FilterLexer::ReadCodePoint(std::string* text) {
  for (const std::size_t bytes : {6, 12}) {
    const auto json = nlohmann::json::parse(
        absl::StrCat("\"", AbslView(Rest().substr(0, bytes)), "\""), nullptr, false);
    if (!json.is_string()) continue;
    *text += json.get<std::string>();
    at_ += bytes;
    return absl::OkStatus();
  }
  return FilterError(at_ + 1, R"(expected \uXXXX, or a pair of surrogates, found )",
                     FilterExcerpt(Rest().substr(0, 6)));
}

}  // namespace hmann
