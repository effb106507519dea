/// What the readers of attributes share: values as they were found, the fields that they
/// belong to, and the words of errors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "index/attributes/rows.h"

namespace hmann {

inline constexpr std::size_t kMostFields = 1'000;
inline constexpr std::size_t kMostFieldNameBytes = 256;
inline constexpr std::size_t kMostTagBytes = 65'535;
inline constexpr std::size_t kMostRowTags = 65'536;
inline constexpr std::size_t kMostLineBytes = 1 << 20;  ///< without its end
inline constexpr std::string_view kLabelKey = "label";
inline constexpr char kWholeNumber[] = "a whole number";
inline constexpr char kLabelNumber[] = "a whole number from 0 to 2^64 - 1";

/// For absl's functions, whose string_view may be a type of its own.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

/// The length of the longest prefix of `text` that is UTF-8.
std::size_t Utf8Prefix(std::string_view text);

/// `text` as messages show it: in quotes and escaped, at most its first 40 bytes.
std::string ShownText(std::string_view text);
/// The same without quotes, for numbers and names.
std::string ShownBare(std::string_view text);

/// "FILE: line 12: year: expected a whole number, found nothing". `field` may be empty.
absl::Status UnexpectedIn(const std::string& path, std::uint64_t line, std::string_view field,
                          std::string_view expected, std::string_view found);

/// Errors: INVALID_ARGUMENT unless `name` can name a field; without the file.
absl::Status CheckFieldName(std::string_view name);

/// A value as a file has it, before it gets the type of its field.
struct FoundValue {
  enum class Kind : std::uint8_t {
    kBool,
    kWhole,
    kHuge,   ///< a whole number that does not fit int64
    kFloat,  ///< finite
    kText,
  };
  Kind kind = Kind::kText;
  std::int64_t whole = 0;  ///< of kWhole; of kBool 0 or 1
  double number = 0;       ///< of kHuge and kFloat
  std::string text;        ///< of kText; of others as written, empty for kWhole by itself
};

/// A value as messages show it: texts in quotes, at most 40 bytes.
std::string ShownValue(const FoundValue& value);

/// What a row has for a field; nothing at all if that is null.
struct FoundCell {
  enum class Shape : std::uint8_t {
    kOne,
    kList,   ///< strings only, or whole numbers only
    kParts,  ///< a text of any number of tags
  };
  std::uint32_t field = 0;
  Shape shape = Shape::kOne;
  std::size_t first = 0, count = 0;  ///< in FoundRow::values
};

struct FoundRow {
  std::uint64_t line = 0;  ///< where it begins, from 1
  std::optional<std::uint64_t> label;
  std::vector<FoundCell> cells;  ///< at most one of each field
  std::vector<FoundValue> values;

  void Clear(std::uint64_t at_line) {
    line = at_line;
    label.reset();
    cells.clear();
    values.clear();
  }
  /// Adds a value that is all of its field.
  void Add(std::uint32_t field, FoundValue value) {
    cells.push_back({field, FoundCell::Shape::kOne, values.size(), 1});
    values.push_back(std::move(value));
  }
};

/// The fields of a file. In a first pass it learns their names and types; from Finish on
/// it converts values. Not thread-safe; a copy is independent.
class FieldTable {
 public:
  FieldTable() = default;
  /// Errors: INVALID_ARGUMENT for a type of "label", a name that is none, and a field
  /// that is given twice.
  static absl::StatusOr<FieldTable> Make(std::string path,
                                         const std::vector<AttributeField>& given);

  const std::string& path() const { return path_; }
  std::size_t size() const { return fields_.size(); }
  const std::string& name(std::uint32_t field) const { return fields_[field].name; }
  /// Unknown before Finish unless it was given.
  std::optional<AttributeType> type(std::uint32_t field) const;

  /// The number of the field with this name. A new one is added; after Finish it is an
  /// error.
  absl::StatusOr<std::uint32_t> Number(std::uint64_t line, std::string_view name);
  /// Checks a row and learns from it. Its texts may be moved away.
  absl::Status Learn(FoundRow* row);
  /// Errors: INVALID_ARGUMENT if a given field did not occur.
  absl::Status Finish();
  std::vector<AttributeField> Fields() const;
  /// Overwrites *cells: ascending by field, tags by value. Before Finish, only fields
  /// whose type was given are converted. Texts may be moved out of the row.
  absl::Status Convert(FoundRow* row, std::vector<AttributeCell>* cells) const;

 private:
  struct Field {
    std::string name;
    std::optional<AttributeType> type;
    unsigned seen = 0;  ///< bits of what occurred, for fields without a type
  };

  absl::Status CheckSizes(const FoundRow& row) const;
  absl::Status Infer(const FoundRow& row, const FoundCell& cell);
  absl::Status ConvertOne(const FoundRow& row, const FoundCell& cell,
                          std::vector<AttributeCell>* cells) const;
  absl::Status ConvertTags(FoundRow* row, const FoundCell& cell,
                           std::vector<AttributeCell>* cells) const;

  std::string path_;
  std::map<std::string, AttributeType, std::less<>> given_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<Field> fields_;
  std::vector<AttributeCell> scratch_;
  bool finished_ = false;
};

}  // namespace hmann
