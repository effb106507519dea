#include "index/attributes/filter_text.h"

#include <charconv>
#include <span>

#include "absl/strings/str_cat.h"
#include "index/attributes/filter_lexer.h"
#include "index/base/check.h"

namespace hmann {
namespace {

/// The shortest text that is read as this double, and as no integer.
std::string DoubleText(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  HMANN_CHECK(error == std::errc());
  std::string text(buffer, end);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos)
    return text.find('.') == std::string::npos ? text + ".0" : text;
  // 1e+05 becomes 1e5, and 1e-05 becomes 1e-5.
  const bool negative = text[exponent + 1] == '-';
  const std::size_t digits = text.find_first_not_of('0', exponent + 2);
  return text.substr(0, exponent) + (negative ? "e-" : "e") + text.substr(digits);
}

std::string StringText(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\')
      text += {'\\', c};
    else if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c == '\r')
      text += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20)
      absl::StrAppend(&text, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    else
      text += c;
  }
  return text + '"';
}

std::string FieldText(const std::string& name) {
  if (IsPlainFieldName(name)) return name;
  std::string text = "`";
  for (const char c : name) text.append(c == '`' ? 2 : 1, c);
  return text + '`';
}

const char* OpText(FilterNode::Op op) {
  switch (op) {
    case FilterNode::Op::kEqual:
      return "=";
    case FilterNode::Op::kNotEqual:
      return "!=";
    case FilterNode::Op::kLess:
      return "<";
    case FilterNode::Op::kLessEqual:
      return "<=";
    case FilterNode::Op::kGreater:
      return ">";
    case FilterNode::Op::kGreaterEqual:
      return ">=";
  }
  return "";
}

void AppendFilterValues(std::span<const FilterValue> values, std::string* text) {
  for (std::size_t i = 0; i < values.size(); ++i)
    absl::StrAppend(text, i > 0 ? ", " : "", FilterValueText(values[i]));
}

void AppendFilterNode(const FilterNode& node, std::string* text);

/// Appends a child of `and`, `or` or `not`, in parentheses if it binds less.
void AppendFilterChild(FilterNode::Kind parent, const FilterNode& child, std::string* text) {
  using Kind = FilterNode::Kind;
  const bool inside = child.kind == Kind::kOr ? parent != Kind::kOr
                                              : child.kind == Kind::kAnd && parent == Kind::kNot;
  if (inside) *text += '(';
  AppendFilterNode(child, text);
  if (inside) *text += ')';
}

/// Appends a condition that names a field. `negated`: it is the child of a `not`, which
/// stands within `not in` and `is not null`.
void AppendFieldCondition(const FilterNode& node, bool negated, std::string* text) {
  if (negated && node.kind != FilterNode::Kind::kIn && node.kind != FilterNode::Kind::kNull)
    *text += "not ";
  const std::string field = FieldText(node.field);
  switch (node.kind) {
    case FilterNode::Kind::kCompare:
      absl::StrAppend(text, field, " ", OpText(node.op), " ", FilterValueText(node.values[0]));
      break;
    case FilterNode::Kind::kIn:
      absl::StrAppend(text, field, negated ? " not in (" : " in (");
      AppendFilterValues(node.values, text);
      *text += ')';
      break;
    case FilterNode::Kind::kHas:
      absl::StrAppend(text, "has(", field, ", ");
      AppendFilterValues(node.values, text);
      *text += ')';
      break;
    default:
      absl::StrAppend(text, field, negated ? " is not null" : " is null");
  }
}

void AppendFilterNode(const FilterNode& node, std::string* text) {
  switch (node.kind) {
    case FilterNode::Kind::kAnd:
    case FilterNode::Kind::kOr:
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        if (i > 0) *text += node.kind == FilterNode::Kind::kAnd ? " and " : " or ";
        AppendFilterChild(node.kind, node.children[i], text);
      }
      break;
    case FilterNode::Kind::kNot:
      if (const FilterNode& child = node.children[0]; child.children.empty()) {
        AppendFieldCondition(child, true, text);
      } else {
        *text += "not ";
        AppendFilterChild(node.kind, child, text);
      }
      break;
    default:
      AppendFieldCondition(node, false, text);
  }
}

}  // namespace

std::string FilterValueText(const FilterValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return absl::StrCat(*integer);
  if (const auto* number = std::get_if<double>(&value)) return DoubleText(*number);
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  return StringText(std::get<std::string>(value));
}

std::string FilterText(const FilterNode& root) {
  std::string text;
  AppendFilterNode(root, &text);
  return text;
}

}  // namespace hmann
