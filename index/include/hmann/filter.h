#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/filter_arguments.h"

namespace hmann {

/// A part of a filter, which is true or false for each vector. A vector without a value
/// for `field` is false for every comparison, `in` and `has`; only `is null` is true for
/// it. `not` turns every answer around.
struct FilterNode {
  enum class Kind : std::uint8_t {
    kAnd,      ///< all of `children`, two or more
    kOr,       ///< one of `children`, two or more
    kNot,      ///< not its only child
    kCompare,  ///< field `op` the only one of `values`; of tags: one is it, for != none is
    kIn,       ///< the field, or one of its tags, is one of `values`
    kHas,      ///< each of `values` is one of the field's tags
    kNull,     ///< the field has no value
  };
  enum class Op : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children;
  std::string field;
  Op op = Op::kEqual;
  std::vector<FilterValue> values;  ///< of kIn and kHas: distinct and ascending by text
  std::uint32_t column = 1;         ///< where it begins in the text that was parsed, from 1

  bool operator==(const FilterNode& other) const;  ///< without columns
};

/// A parsed filter: `year >= 2020 and (tag = "cat" or tag in ("dog", "cow")) and not
/// sold`. doc/filters.md describes the language.
class Filter {
 public:
  static constexpr std::size_t kMostBytes = 1 << 20;
  static constexpr std::size_t kMostValues = 65'536;  ///< in all of a filter's lists
  static constexpr int kMostLevels = 64;
  static constexpr std::size_t kMostConditions = 1024;  ///< each takes its time

  /// Errors: INVALID_ARGUMENT naming the column (in bytes, from 1), what was expected and
  /// what was found.
  static absl::StatusOr<Filter> Parse(std::string_view text, const FilterArguments& arguments = {});

  const FilterNode& root() const { return root_; }
  /// The canonical form: parsing it gives an equal filter with an equal text. Filters
  /// that differ only in blanks, keywords' case, needless parentheses, or the order and
  /// repetition of listed values have the same text.
  const std::string& text() const { return text_; }

 private:
  FilterNode root_;
  std::string text_;
};

}  // namespace hmann
