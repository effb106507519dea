#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/attributes.h"
#include "hmann/filter.h"
#include "index/attributes/rows.h"

namespace hmann {

/// A whole number, or a number with a fraction; both compare exactly with either.
using Number = long double;

/// A part of a filter that was checked against the fields it is about. What its values
/// mean is in one of `numbers`, `tags` and `wants`, by the type of its field.
struct BoundNode {
  FilterNode::Kind kind = FilterNode::Kind::kAnd;
  FilterNode::Op op = FilterNode::Op::kEqual;  ///< kEqual unless `kind` is kCompare
  std::vector<BoundNode> children;
  std::uint32_t field = 0;
  AttributeType type = AttributeType::kTag;
  std::vector<Number> numbers;     ///< compared with, ascending
  std::vector<FilterValue> tags;   ///< ascending
  bool wants[2] = {false, false};  ///< whether false and true satisfy it

  /// Whether it holds for this value of a field of numbers.
  bool HoldsFor(Number value) const;
  /// Whether it holds for the row with these cells, as AttributeRows has them.
  bool Holds(std::span<const AttributeCell> cells) const;
};

/// Errors: INVALID_ARGUMENT naming the column of the filter: a field that there is not, a
/// comparison that its type does not have.
absl::StatusOr<BoundNode> BindFilter(const Filter& filter, std::span<const AttributeField> fields);

}  // namespace hmann
