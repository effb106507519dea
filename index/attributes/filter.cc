#include "hmann/filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "index/attributes/filter_lexer.h"
#include "index/attributes/words.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

using Kind = FilterNode::Kind;

/// Strings of arguments, each counted as often as the filter names it. Without a limit, a
/// short filter that names a long string many times would fill the memory.
constexpr std::size_t kMostArgumentBytes = 16_MiB;

/// The shortest text that is read as this double, and as no integer.
std::string FilterDoubleText(double value) {
  char buffer[32];
  const std::string shortest(buffer, std::to_chars(buffer, std::end(buffer), value).ptr);
  // 1e+05 becomes 1e5, and 1e-05 becomes 1e-5.
  std::string text = absl::StrReplaceAll(shortest, {{"e+0", "e"}, {"e+", "e"}, {"e-0", "e-"}});
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

/// As in JSON, but for two escapes that filters do not have.
std::string FilterStringText(const std::string& value) {
  return absl::StrReplaceAll(JsonText(nlohmann::json(value)),
                             {{R"(\\)", R"(\\)"}, {R"(\b)", R"(\u0008)"}, {R"(\f)", R"(\u000c)"}});
}

std::string FilterFieldText(const std::string& name) {
  const auto token = FilterLexer(name).Next();
  if (token.ok() && token->name == name) return name;
  return absl::StrCat("`", absl::StrReplaceAll(name, {{"`", "``"}}), "`");
}

/// A literal that the lexer reads as the same value. A double is finite and not -0.0; a
/// string is UTF-8.
std::string FilterValueText(const FilterValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return absl::StrCat(*integer);
  if (const auto* number = std::get_if<double>(&value)) return FilterDoubleText(*number);
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  return FilterStringText(std::get<std::string>(value));
}

std::string FilterValuesText(const std::vector<FilterValue>& values) {
  std::string text;
  for (const FilterValue& value : values)
    absl::StrAppend(&text, text.empty() ? "" : ", ", FilterValueText(value));
  return text;
}

/// Appends a node that stands in `outer`, in parentheses if it binds less. The `not`
/// around `in` and `is null` stands within them.
void AppendFilterNode(const FilterNode& node, Kind outer, std::string* text) {
  constexpr const char* kOps[] = {"=", "!=", "<", "<=", ">", ">="};
  const bool negated = outer == Kind::kNot;
  const bool group =
      node.kind == Kind::kOr ? outer != Kind::kOr : node.kind == Kind::kAnd && negated;
  const std::string field = FilterFieldText(node.field), values = FilterValuesText(node.values);
  if (negated && node.kind != Kind::kIn && node.kind != Kind::kNull) *text += "not ";
  if (group) *text += '(';
  switch (node.kind) {
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kNot:
      for (const FilterNode& child : node.children) {
        if (&child != &node.children[0]) *text += node.kind == Kind::kAnd ? " and " : " or ";
        AppendFilterNode(child, node.kind, text);
      }
      break;
    case Kind::kCompare:
      absl::StrAppend(text, field, " ", kOps[static_cast<std::size_t>(node.op)], " ", values);
      break;
    case Kind::kIn:
      absl::StrAppend(text, field, negated ? " not in (" : " in (", values, ")");
      break;
    case Kind::kHas:
      absl::StrAppend(text, "has(", field, ", ", values, ")");
      break;
    case Kind::kNull:
      absl::StrAppend(text, field, negated ? " is not null" : " is null");
      break;
  }
  if (group) *text += ')';
}

/// Reads a filter, with one function for each of its parts. After the first error the
/// only token is the end, which ends them all, and what they return means nothing.
class FilterParser {
 public:
  FilterParser(std::string_view text, const FilterArguments& arguments)
      : lexer_(text), arguments_(arguments) {}

  absl::StatusOr<FilterNode> Run() {
    Advance();
    FilterNode root = ReadAll(Kind::kOr);
    if (!Is(Token::kEnd)) Unexpected("'and', 'or' or the end");
    HMANN_RETURN_IF_ERROR(error_);
    for (const auto& [name, values] : arguments_) {
      if (used_.contains(name)) continue;
      return InvalidArgument("filter: expected only arguments that it names, found also ",
                             FilterExcerpt("$" + name));
    }
    return root;
  }

 private:
  using Token = FilterToken::Kind;

  bool Is(Token kind) const { return token_.kind == kind; }

  void Advance() {
    if (!error_.ok()) return;
    absl::StatusOr<FilterToken> next = lexer_.Next();
    if (next.ok())
      token_ = *std::move(next);
    else
      Fail(next.status());
  }
  bool Accept(Token kind) {
    const bool found = Is(kind);
    if (found) Advance();
    return found;
  }
  void Expect(Token kind, const char* expected) {
    if (!Accept(kind)) Unexpected(expected);
  }

  void Fail(absl::Status error) {
    error_.Update(std::move(error));
    token_.kind = Token::kEnd;
  }
  template <typename... Parts>
  void FailHere(const Parts&... parts) {
    Fail(FilterError(token_.column, "expected ", parts...));
  }
  void Unexpected(const char* expected) { FailHere(expected, ", found ", Shown()); }
  std::string Shown() const { return FilterExcerpt(token_.text); }

  /// Counts a parenthesis or `not`, since each is a level of recursion. Undone where it
  /// ends.
  void Descend() {
    if (++levels_ > Filter::kMostLevels) {
      FailHere("at most ", Filter::kMostLevels, " levels of parentheses and 'not', found ",
               levels_);
    }
    Advance();
  }

  FilterNode Begin(Kind kind) const {
    FilterNode node;
    node.kind = kind;
    node.column = token_.column;
    return node;
  }
  static FilterNode Negated(FilterNode node, FilterNode child) {
    if (child.kind != Kind::kNot)
      node.children.push_back(std::move(child));
    else
      node = FilterNode(std::move(child.children[0]));
    return node;
  }

  /// Conditions separated by `or` or `and`. One alone is itself.
  FilterNode ReadAll(Kind kind) {
    FilterNode node = Begin(kind);
    std::vector<FilterNode> parts;
    do {
      parts.push_back(kind == Kind::kOr ? ReadAll(Kind::kAnd) : ReadNot());
    } while (Accept(kind == Kind::kOr ? Token::kOr : Token::kAnd));
    if (parts.size() == 1) return std::move(parts[0]);
    for (FilterNode& part : parts) {
      if (part.kind == kind)
        std::move(part.children.begin(), part.children.end(), std::back_inserter(node.children));
      else
        node.children.push_back(std::move(part));
    }
    return node;
  }

  FilterNode ReadNot() {
    if (!Is(Token::kNot)) return ReadCondition();
    FilterNode node = Begin(Kind::kNot);
    Descend();
    FilterNode child = ReadNot();
    --levels_;
    return Negated(std::move(node), std::move(child));
  }

  FilterNode ReadCondition() {
    FilterNode node;
    if ((Is(Token::kField) || Is(Token::kHas)) && ++conditions_ > Filter::kMostConditions) {
      FailHere("at most ", Filter::kMostConditions, " conditions, found ", conditions_);
      return node;
    }
    if (Is(Token::kField)) return ReadField();
    if (Is(Token::kHas)) return ReadHas();
    if (Is(Token::kOpen)) {
      Descend();
      node = ReadAll(Kind::kOr);
      Expect(Token::kClose, "'and', 'or' or ')'");
      --levels_;
    } else {
      Unexpected("a condition");
    }
    return node;
  }

  /// A condition that begins with a field.
  FilterNode ReadField() {
    FilterNode node = Begin(Kind::kCompare), around = Begin(Kind::kNot);
    node.field = std::move(token_.name);
    Advance();
    bool negated = false;
    if (Is(Token::kCompare)) {
      node.op = token_.op;
      Advance();
      ReadValue(false, &node.values);
    } else if (Accept(Token::kIs)) {
      node.kind = Kind::kNull;
      negated = Accept(Token::kNot);
      Expect(Token::kNull, negated ? "'null'" : "'null' or 'not null'");
    } else if (Is(Token::kNot) || Is(Token::kIn)) {
      node.kind = Kind::kIn;
      negated = Accept(Token::kNot);
      Expect(Token::kIn, "'in'");
      if (Is(Token::kArgument)) {
        ReadValue(true, &node.values);
        EndList(&node);
      } else {
        Expect(Token::kOpen, "'(' or an argument such as $name");
        ReadList(&node);
      }
    } else {
      node.values.emplace_back(true);
      const bool ends = Is(Token::kAnd) || Is(Token::kOr) || Is(Token::kClose) || Is(Token::kEnd);
      if (!ends) Unexpected("an operator, 'and' or 'or'");
    }
    return negated ? Negated(std::move(around), std::move(node)) : std::move(node);
  }

  FilterNode ReadHas() {
    FilterNode node = Begin(Kind::kHas);
    Advance();
    Expect(Token::kOpen, "'('");
    node.field = token_.name;
    Expect(Token::kField, "a field");
    Expect(Token::kComma, "','");
    ReadList(&node);
    return node;
  }

  /// Values up to a closing parenthesis, and that.
  void ReadList(FilterNode* node) {
    const auto next = FilterLexer(lexer_).Next();
    const bool alone = node->kind == Kind::kHas && next.ok() && next->kind == Token::kClose;
    do {
      ReadValue(alone, &node->values);
    } while (Accept(Token::kComma));
    Expect(Token::kClose, "',' or ')'");
    EndList(node);
  }

  /// Counts and sorts the values of a list and keeps one of each.
  void EndList(FilterNode* node) {
    values_ += node->values.size();
    if (values_ > Filter::kMostValues) {
      return Fail(FilterError(node->column, "expected at most ", Filter::kMostValues,
                              " values in all lists, found ", values_));
    }
    std::vector<FilterValue> given = std::exchange(node->values, {});
    std::vector<std::pair<std::string, FilterValue*>> by_text;
    by_text.reserve(given.size());
    for (FilterValue& value : given) by_text.emplace_back(FilterValueText(value), &value);
    std::sort(by_text.begin(), by_text.end());
    for (std::size_t i = 0; i < by_text.size(); ++i) {
      if (i == 0 || by_text[i].first != by_text[i - 1].first)
        node->values.push_back(std::move(*by_text[i].second));
    }
  }

  /// Reads a literal, or an argument with exactly one value, or any number if `many`.
  void ReadValue(bool many, std::vector<FilterValue>* values) {
    if (Is(Token::kArgument))
      AddArgument(many, values);
    else if (Is(Token::kValue))
      values->push_back(std::move(token_.value));
    else
      Unexpected("a value");
    Advance();
  }

  void AddArgument(bool many, std::vector<FilterValue>* values) {
    const auto found = arguments_.find(token_.name);
    if (found == arguments_.end())
      return Fail(FilterError(token_.column, "no argument is given for ", Shown()));
    used_.insert(found->first);
    const std::size_t count = found->second.size();
    if (many ? count == 0 : count != 1)
      return FailHere(many ? "at least" : "exactly", " one value of ", Shown(), ", found ", count);
    for (FilterValue value : found->second) {
      if (double* number = std::get_if<double>(&value)) {
        if (!std::isfinite(*number))
          return FailHere("finite numbers in ", Shown(), ", found ", *number);
        if (*number == 0) *number = 0.0;  // not -0.0
      }
      if (const auto* text = std::get_if<std::string>(&value)) {
        argument_bytes_ += text->size();
        if (argument_bytes_ > kMostArgumentBytes) {
          return FailHere("at most ", kMostArgumentBytes, " bytes in strings of arguments, found ",
                          argument_bytes_);
        }
        if (Utf8Prefix(*text) < text->size())
          return FailHere("UTF-8 in ", Shown(), ", found ", FilterExcerpt(*text));
      }
      values->push_back(std::move(value));
    }
  }

  FilterLexer lexer_;
  const FilterArguments& arguments_;
  absl::Status error_;
  FilterToken token_;
  int levels_ = 0;
  std::size_t values_ = 0;  ///< in lists
  std::size_t conditions_ = 0;
  std::size_t argument_bytes_ = 0;
  std::set<std::string_view> used_;  ///< arguments
};

}  // namespace

bool FilterNode::operator==(const FilterNode& other) const {
  return kind == other.kind && op == other.op && field == other.field && values == other.values &&
         children == other.children;
}

absl::StatusOr<Filter> Filter::Parse(std::string_view text, const FilterArguments& arguments) {
  if (text.size() > kMostBytes)
    return InvalidArgument("filter: expected at most ", kMostBytes, " bytes, found ", text.size());
  if (const std::size_t valid = Utf8Prefix(text); valid < text.size()) {
    return FilterError(valid + 1, "expected UTF-8, found the byte 0x",
                       absl::Hex(static_cast<unsigned char>(text[valid]), absl::kZeroPad2));
  }
  Filter filter;
  HMANN_ASSIGN_OR_RETURN(filter.root_, FilterParser(text, arguments).Run());
  AppendFilterNode(filter.root_, Kind::kOr, &filter.text_);
  return filter;
}

}  // namespace hmann
