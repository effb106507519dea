#include "index/attributes/bound_filter.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "index/attributes/attrs_file.h"
#include "index/attributes/words.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Kind = FilterNode::Kind;
using Op = FilterNode::Op;

std::string TextOf(const FilterValue& value) {
  if (const auto* tag = std::get_if<std::string>(&value); tag != nullptr)
    return JsonText(nlohmann::json(tag->substr(0, 40)));
  if (const auto* is = std::get_if<bool>(&value); is != nullptr) return *is ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value); real != nullptr) return absl::StrCat(*real);
  return absl::StrCat(std::get<std::int64_t>(value));
}

class Binder {
 public:
  explicit Binder(std::span<const AttributeField> fields) : fields_(fields) {}

  absl::StatusOr<BoundNode> Of(const FilterNode& node) const {
    BoundNode bound;
    bound.kind = node.kind;
    for (const FilterNode& child : node.children) {
      HMANN_ASSIGN_OR_RETURN(bound.children.emplace_back(), Of(child));
    }
    if (!node.children.empty()) return bound;
    HMANN_ASSIGN_OR_RETURN(bound.field, FieldOf(node));
    bound.type = fields_[bound.field].type;
    if (node.kind == Kind::kNull) return bound;
    if (node.kind == Kind::kCompare) bound.op = node.op;
    if (node.kind == Kind::kHas && !IsTag(bound.type))
      return Wrong(node, absl::StrCat("has() needs a field of tags, and ", Described(bound)));
    const bool has_order = bound.op != Op::kEqual && bound.op != Op::kNotEqual;
    if (has_order && IsTag(bound.type))
      return Wrong(node, absl::StrCat(Described(bound), ", and tags have no order"));
    if (has_order && bound.type == AttributeType::kBool)
      return Wrong(node, absl::StrCat(Described(bound), ", and true and false have no order"));
    for (const FilterValue& value : node.values) HMANN_RETURN_IF_ERROR(Take(node, value, &bound));
    std::sort(bound.numbers.begin(), bound.numbers.end());
    std::sort(bound.tags.begin(), bound.tags.end());
    return bound;
  }

 private:
  static absl::Status Wrong(const FilterNode& node, absl::string_view what) {
    return InvalidArgument("filter: column ", node.column, ": ", what);
  }
  std::string Described(const BoundNode& bound) const {
    return absl::StrCat(fields_[bound.field].name, " is ",
                        std::string(AttributeTypeName(bound.type)));
  }

  absl::StatusOr<std::uint32_t> FieldOf(const FilterNode& node) const {
    for (std::uint32_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].name == node.field) return f;
    }
    return Wrong(node, absl::StrCat("there is no field ", ShownBare(node.field),
                                    fields_.empty() ? ", since no vector has had attributes"
                                                    : ", only " + ShownNames(fields_)));
  }

  /// Adds a value of `node` as the type of the field has it.
  absl::Status Take(const FilterNode& node, const FilterValue& value, BoundNode* bound) const {
    const auto no = [&](absl::string_view what) {
      return Wrong(node, absl::StrCat(Described(*bound), ", and ", TextOf(value), " is ", what));
    };
    const auto* text = std::get_if<std::string>(&value);
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (IsTag(bound->type)) {
      const bool of_text = bound->type == AttributeType::kTag;
      if (of_text ? text == nullptr : whole == nullptr)
        return no(of_text ? "no string" : "no whole number");
      bound->tags.push_back(value);
      return absl::OkStatus();
    }
    if (bound->type == AttributeType::kBool) {
      const bool* is = std::get_if<bool>(&value);
      if (is == nullptr) return no("neither true nor false");
      bound->wants[*is != (bound->op == Op::kNotEqual) ? 1 : 0] = true;
      return absl::OkStatus();
    }
    if (text != nullptr && bound->type == AttributeType::kTime) {
      const absl::StatusOr<std::int64_t> time = ParseAttributeTime(*text);
      if (!time.ok()) return Wrong(node, time.status().message());
      bound->numbers.push_back(static_cast<Number>(*time));
      return absl::OkStatus();
    }
    const auto* real = std::get_if<double>(&value);
    if (whole == nullptr && real == nullptr) return no("no number");
    bound->numbers.push_back(whole != nullptr ? static_cast<Number>(*whole)
                                              : static_cast<Number>(*real));
    return absl::OkStatus();
  }

  std::span<const AttributeField> fields_;
};

}  // namespace

bool BoundNode::HoldsFor(Number value) const {
  switch (op) {
    case Op::kEqual:
      return std::binary_search(numbers.begin(), numbers.end(), value);
    case Op::kNotEqual:
      return value != numbers[0];
    case Op::kLess:
      return value < numbers[0];
    case Op::kLessEqual:
      return value <= numbers[0];
    case Op::kGreater:
      return value > numbers[0];
    case Op::kGreaterEqual:
      break;
  }
  return value >= numbers[0];
}

bool BoundNode::Holds(std::span<const AttributeCell> cells) const {
  const auto holds = [cells](const BoundNode& child) { return child.Holds(cells); };
  if (kind == Kind::kAnd) return std::all_of(children.begin(), children.end(), holds);
  if (kind == Kind::kOr) return std::any_of(children.begin(), children.end(), holds);
  if (kind == Kind::kNot) return !holds(children[0]);
  const auto own = std::ranges::equal_range(cells, field, {}, &AttributeCell::field);
  if (own.empty() || kind == Kind::kNull) return own.empty() && kind == Kind::kNull;
  if (IsTag(type)) {
    const auto found =
        static_cast<std::size_t>(std::ranges::count_if(own, [this](const AttributeCell& cell) {
          return std::binary_search(tags.begin(), tags.end(), cell.value);
        }));
    if (kind == Kind::kHas) return found == tags.size();
    return (found > 0) != (op == Op::kNotEqual);
  }
  const FilterValue& value = own.front().value;
  if (const bool* is = std::get_if<bool>(&value); is != nullptr) return wants[*is ? 1 : 0];
  const auto* whole = std::get_if<std::int64_t>(&value);
  return HoldsFor(whole != nullptr ? static_cast<Number>(*whole)
                                   : static_cast<Number>(std::get<double>(value)));
}

absl::StatusOr<BoundNode> BindFilter(const Filter& filter, std::span<const AttributeField> fields) {
  return Binder(fields).Of(filter.root());
}

}  // namespace hmann
