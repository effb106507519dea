#include "hmann/filter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/attributes/filter_lexer.h"
#include "index/attributes/filter_text.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

/// Strings of arguments, each counted as often as the filter names it. Without a limit, a
/// short filter that names a long string many times would fill the memory.
constexpr std::size_t kMostArgumentBytes = 16_MiB;

void AddFilterChild(FilterNode child, FilterNode* parent) {
  if (child.kind != parent->kind) {
    parent->children.push_back(std::move(child));
    return;
  }
  std::move(child.children.begin(), child.children.end(), std::back_inserter(parent->children));
}

FilterNode NegatedFilter(FilterNode child, std::uint32_t column) {
  if (child.kind == FilterNode::Kind::kNot) {
    FilterNode inner = std::move(child.children[0]);
    return inner;
  }
  FilterNode node;
  node.kind = FilterNode::Kind::kNot;
  node.column = column;
  node.children.push_back(std::move(child));
  return node;
}

/// Orders values by their texts and keeps one of each.
void SortFilterValues(std::vector<FilterValue>* values) {
  std::vector<std::pair<std::string, FilterValue>> by_text;
  by_text.reserve(values->size());
  for (FilterValue& value : *values) {
    std::string text = FilterValueText(value);
    by_text.emplace_back(std::move(text), std::move(value));
  }
  std::sort(by_text.begin(), by_text.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  values->clear();
  for (auto it = by_text.begin(); it != by_text.end(); ++it) {
    if (it == by_text.begin() || it->first != std::prev(it)->first)
      values->push_back(std::move(it->second));
  }
}

/// "$a, $b and 3 others".
std::string ShowArguments(const std::vector<std::string>& names) {
  constexpr std::size_t kMostShown = 8;
  const std::size_t shown = std::min(names.size(), kMostShown);
  const std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  return shown < names.size() ? absl::StrCat(text, " and ", names.size() - shown, " others") : text;
}

class FilterParser {
 public:
  FilterParser(std::string_view text, const FilterArguments& arguments)
      : lexer_(text), arguments_(arguments) {}

  absl::StatusOr<FilterNode> Run() {
    HMANN_RETURN_IF_ERROR(Advance());
    HMANN_ASSIGN_OR_RETURN(FilterNode root, ReadAll(Kind::kOr));
    if (!Is(Token::kEnd)) return Unexpected(AfterCondition("the end"));
    HMANN_RETURN_IF_ERROR(CheckAllUsed());
    return root;
  }

 private:
  using Kind = FilterNode::Kind;
  using Token = FilterToken::Kind;

  bool Is(Token kind) const { return token_.kind == kind; }

  absl::Status Advance() {
    last_ = token_.kind;
    HMANN_ASSIGN_OR_RETURN(token_, lexer_.Next());
    return absl::OkStatus();
  }

  std::string Shown() const { return Is(Token::kEnd) ? "the end" : FilterExcerpt(token_.text); }

  absl::Status Unexpected(const std::string& expected) const {
    return FilterError(token_.column, "expected ", expected, ", found ", Shown());
  }

  /// What may follow a condition; an operator only a field.
  std::string AfterCondition(const char* end) const {
    return absl::StrCat(last_ == Token::kField ? "an operator, " : "", "'and', 'or' or ", end);
  }

  absl::Status Expect(Token kind, const char* expected) {
    return Is(kind) ? Advance() : Unexpected(expected);
  }

  /// Counts a parenthesis or `not`, since each is a level of recursion. Undone where it
  /// ends.
  absl::Status Descend() {
    if (++levels_ > Filter::kMostLevels) {
      return FilterError(token_.column, "expected at most ", Filter::kMostLevels,
                         " levels of parentheses and 'not', found ", levels_);
    }
    return Advance();
  }

  /// Conditions separated by `or` or `and`. One alone is itself.
  absl::StatusOr<FilterNode> ReadAll(Kind kind) {
    const Token word = kind == Kind::kOr ? Token::kOr : Token::kAnd;
    FilterNode node;
    node.kind = kind;
    node.column = token_.column;
    HMANN_ASSIGN_OR_RETURN(FilterNode first, ReadPart(kind));
    if (!Is(word)) return first;
    AddFilterChild(std::move(first), &node);
    while (Is(word)) {
      HMANN_RETURN_IF_ERROR(Advance());
      HMANN_ASSIGN_OR_RETURN(FilterNode next, ReadPart(kind));
      AddFilterChild(std::move(next), &node);
    }
    return node;
  }
  absl::StatusOr<FilterNode> ReadPart(Kind whole) {
    return whole == Kind::kOr ? ReadAll(Kind::kAnd) : ReadNot();
  }

  absl::StatusOr<FilterNode> ReadNot() {
    if (!Is(Token::kNot)) return ReadCondition();
    const std::uint32_t column = token_.column;
    HMANN_RETURN_IF_ERROR(Descend());
    HMANN_ASSIGN_OR_RETURN(FilterNode child, ReadNot());
    --levels_;
    return NegatedFilter(std::move(child), column);
  }

  absl::StatusOr<FilterNode> ReadCondition() {
    if (Is(Token::kField)) return ReadField();
    if (Is(Token::kHas)) return ReadHas();
    if (!Is(Token::kOpen)) return Unexpected("a condition");
    HMANN_RETURN_IF_ERROR(Descend());
    HMANN_ASSIGN_OR_RETURN(FilterNode inner, ReadAll(Kind::kOr));
    if (!Is(Token::kClose)) return Unexpected(AfterCondition("')'"));
    --levels_;
    HMANN_RETURN_IF_ERROR(Advance());
    return inner;
  }

  /// A condition that begins with a field.
  absl::StatusOr<FilterNode> ReadField() {
    FilterNode node;
    node.field = std::move(token_.name);
    node.column = token_.column;
    HMANN_RETURN_IF_ERROR(Advance());
    bool negated = false;
    if (Is(Token::kCompare)) {
      node.kind = Kind::kCompare;
      node.op = token_.op;
      HMANN_RETURN_IF_ERROR(Advance());
      HMANN_RETURN_IF_ERROR(ReadValue(&node.values));
    } else if (Is(Token::kIs)) {
      node.kind = Kind::kNull;
      HMANN_RETURN_IF_ERROR(Advance());
      negated = Is(Token::kNot);
      if (negated) HMANN_RETURN_IF_ERROR(Advance());
      HMANN_RETURN_IF_ERROR(Expect(Token::kNull, negated ? "'null'" : "'null' or 'not null'"));
    } else if (Is(Token::kNot) || Is(Token::kIn)) {
      node.kind = Kind::kIn;
      negated = Is(Token::kNot);
      if (negated) HMANN_RETURN_IF_ERROR(Advance());
      HMANN_RETURN_IF_ERROR(Expect(Token::kIn, "'in'"));
      HMANN_RETURN_IF_ERROR(ReadList(&node.values));
    } else {
      node.kind = Kind::kCompare;
      node.values.emplace_back(true);
    }
    const std::uint32_t column = node.column;
    return negated ? NegatedFilter(std::move(node), column) : std::move(node);
  }

  absl::StatusOr<FilterNode> ReadHas() {
    FilterNode node;
    node.kind = Kind::kHas;
    node.column = token_.column;
    HMANN_RETURN_IF_ERROR(Advance());
    HMANN_RETURN_IF_ERROR(Expect(Token::kOpen, "'('"));
    node.field = std::move(token_.name);
    HMANN_RETURN_IF_ERROR(Expect(Token::kField, "a field"));
    HMANN_RETURN_IF_ERROR(Expect(Token::kComma, "','"));
    const auto next = FilterLexer(lexer_).Next();
    if (Is(Token::kArgument) && next.ok() && next->kind == Token::kClose) {
      HMANN_RETURN_IF_ERROR(ReadArgument(&node.values));
      HMANN_RETURN_IF_ERROR(Advance());
      SortFilterValues(&node.values);
    } else {
      HMANN_RETURN_IF_ERROR(ReadValues(&node.values));
    }
    return node;
  }

  /// What follows `in`.
  absl::Status ReadList(std::vector<FilterValue>* values) {
    if (Is(Token::kArgument)) {
      HMANN_RETURN_IF_ERROR(ReadArgument(values));
      SortFilterValues(values);
      return absl::OkStatus();
    }
    HMANN_RETURN_IF_ERROR(Expect(Token::kOpen, "'(' or an argument such as $name"));
    return ReadValues(values);
  }

  /// Values up to a closing parenthesis, and that.
  absl::Status ReadValues(std::vector<FilterValue>* values) {
    if (Is(Token::kClose)) return Unexpected("at least one value");
    for (bool first = true; first || !Is(Token::kClose); first = false) {
      if (!first) HMANN_RETURN_IF_ERROR(Expect(Token::kComma, "',' or ')'"));
      HMANN_RETURN_IF_ERROR(CountValues(1));
      HMANN_RETURN_IF_ERROR(ReadValue(values));
    }
    SortFilterValues(values);
    return Advance();
  }

  absl::Status CountValues(std::size_t more) {
    values_ += more;
    if (values_ <= Filter::kMostValues) return absl::OkStatus();
    return FilterError(token_.column, "expected at most ", Filter::kMostValues,
                       " values in all lists, found ", values_);
  }

  /// One value: a literal, or an argument that has one.
  absl::Status ReadValue(std::vector<FilterValue>* values) {
    if (Is(Token::kArgument)) {
      HMANN_ASSIGN_OR_RETURN(const auto* given, FindArgument());
      if (given->size() != 1) {
        return FilterError(token_.column, "expected exactly one value of ", Shown(), ", found ",
                           given->size());
      }
      HMANN_RETURN_IF_ERROR(AddArgument(*given, values));
      return Advance();
    }
    if (!Is(Token::kValue)) return Unexpected("a value");
    values->push_back(std::move(token_.value));
    return Advance();
  }

  /// All values of an argument.
  absl::Status ReadArgument(std::vector<FilterValue>* values) {
    HMANN_ASSIGN_OR_RETURN(const auto* given, FindArgument());
    if (given->empty()) {
      return FilterError(token_.column, "expected at least one value of ", Shown(), ", found none");
    }
    HMANN_RETURN_IF_ERROR(CountValues(given->size()));
    HMANN_RETURN_IF_ERROR(AddArgument(*given, values));
    return Advance();
  }

  absl::StatusOr<const std::vector<FilterValue>*> FindArgument() {
    const auto found = arguments_.find(token_.name);
    if (found == arguments_.end())
      return FilterError(token_.column, "no argument is given for ", Shown());
    used_.insert(found->first);
    return &found->second;
  }

  absl::Status AddArgument(const std::vector<FilterValue>& given,
                           std::vector<FilterValue>* values) {
    for (const FilterValue& value : given) {
      if (const auto* number = std::get_if<double>(&value)) {
        if (!std::isfinite(*number)) return WrongArgument("finite numbers", absl::StrCat(*number));
        values->emplace_back(*number == 0 ? 0.0 : *number);  // not -0.0
        continue;
      }
      if (const auto* text = std::get_if<std::string>(&value)) {
        argument_bytes_ += text->size();
        if (argument_bytes_ > kMostArgumentBytes) {
          return FilterError(token_.column, "expected at most ", kMostArgumentBytes,
                             " bytes in strings of arguments, found ", argument_bytes_);
        }
        if (!IsUtf8(*text)) return WrongArgument("UTF-8", FilterExcerpt(*text));
      }
      values->push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status WrongArgument(const char* expected, const std::string& found) const {
    return FilterError(token_.column, "expected ", expected, " in ", Shown(), ", found ", found);
  }

  absl::Status CheckAllUsed() const {
    std::vector<std::string> unused;
    for (const auto& [name, values] : arguments_) {
      if (!used_.contains(name)) unused.push_back(FilterExcerpt("$" + name));
    }
    if (unused.empty()) return absl::OkStatus();
    return InvalidArgument("filter: expected only arguments that it names, found also ",
                           ShowArguments(unused));
  }

  FilterLexer lexer_;
  const FilterArguments& arguments_;
  FilterToken token_;
  Token last_ = Token::kEnd;  ///< before `token_`
  int levels_ = 0;
  std::size_t values_ = 0;  ///< in lists
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
  Filter filter;
  HMANN_ASSIGN_OR_RETURN(filter.root_, FilterParser(text, arguments).Run());
  filter.text_ = FilterText(filter.root_);
  return filter;
}

}  // namespace hmann
