/// What the readers of attributes share: values as they were found, and the fields that
/// they belong to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "index/attributes/attrs_file.h"
#include "index/attributes/rows.h"
#include "index/attributes/words.h"
#include "index/base/file.h"

namespace hmann {

inline constexpr std::size_t kMostTagBytes = 65'535;
inline constexpr std::size_t kMostRowTags = 65'536;
inline constexpr std::size_t kMostLineBytes = 1 << 20;  ///< without its end
inline constexpr char kLabelKey[] = "label";
inline constexpr char kLabelNumber[] = "a whole number from 0 to 2^64 - 1";

/// Errors: INVALID_ARGUMENT unless types can be given for these fields; without the file.
absl::Status CheckGivenFields(const std::vector<AttributeField>& fields);

/// A value as a file has it, before it gets the type of its field.
struct FoundValue {
  /// Bits, so that what a field has can be told by one number.
  enum Kind : unsigned {
    kBool = 1,
    kWhole = 2,
    kFloat = 4,  ///< finite
    kText = 8,
    kHuge = 16,     ///< a whole number that does not fit int64
    kList = 32,     ///< no value: the beginning of a list, whose items follow
    kNoTags = 64,   ///< no value: a text that has no tags
    kMoment = 128,  ///< a text in RFC 3339 with a time of day, of a field without a type
  };
  std::uint32_t field = 0;
  Kind kind = kText;
  std::string text;        ///< as written
  std::int64_t whole = 0;  ///< of kWhole; of kBool 0 or 1
  double number = 0;       ///< of kWhole, kHuge and kFloat
};

/// A value as messages show it: texts in quotes, at most 40 bytes.
std::string ShownValue(const FoundValue& value);

struct FoundRow {
  std::uint64_t line = 0;  ///< where it begins
  std::optional<std::uint64_t> label;
  std::vector<FoundValue> values;    ///< several of a field only if they are tags or a list
  std::vector<std::uint32_t> named;  ///< fields of an object, with or without values
};

/// The fields of a file. In a first pass it learns their names and types; from Finish on
/// it converts values. Not thread-safe; a copy is independent.
class FieldTable {
 public:
  FieldTable() = default;
  /// `unit`: what FoundRow::line counts; empty: rows are read alone, and no message names
  /// one. `given`: as CheckGivenFields has them.
  FieldTable(std::string path, absl::string_view unit, std::vector<AttributeField> given)
      : path_(std::move(path)), unit_(unit), given_(std::move(given)) {}

  /// From now on there are the given fields, by their places. Any other gets the type of
  /// its first value.
  void TypeByFirst();

  std::size_t size() const { return fields_.size(); }
  const std::string& name(std::uint32_t field) const { return fields_[field].name; }
  /// Unknown before Finish unless it was given.
  std::optional<AttributeType> type(std::uint32_t field) const { return fields_[field].type; }

  /// The number of the field with this name. A new one is added, with this type if none
  /// was given.
  absl::StatusOr<std::uint32_t> Number(std::uint64_t line, std::string_view name,
                                       std::optional<AttributeType> type = std::nullopt);
  /// Checks a row and overwrites *cells: ascending by field, tags by value. Learns from
  /// fields without a type, which it leaves out. Moves texts out of the row.
  absl::Status Convert(FoundRow* row, std::vector<AttributeCell>* cells);
  /// Errors: INVALID_ARGUMENT if a given field did not occur.
  absl::StatusOr<std::vector<AttributeField>> Finish();

  /// "FILE: line 12: year: expected a number, found nothing". `field` may be empty.
  absl::Status Unexpected(std::uint64_t line, absl::string_view field, absl::string_view expected,
                          absl::string_view found) const;

 private:
  struct Field {
    std::string name;
    std::optional<AttributeType> type;
    unsigned seen = 0;  ///< kinds of values, before it has a type
  };

  absl::Status Learn(std::uint64_t line, const FoundValue& value);
  std::string Place(std::uint64_t line) const;  ///< how a message begins

  std::string path_;
  absl::string_view unit_;
  bool by_first_ = false;
  std::vector<AttributeField> given_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<Field> fields_;
};

/// Gives pages of a mapped file back to the system once they have been read, so that
/// memory does not grow with the file.
class PagesBehind {
 public:
  /// Reads from `begin` on.
  explicit PagesBehind(const MappedFile& file, std::uint64_t begin = 0)
      : file_(file), begin_(begin) {}
  /// Everything before `offset` has been read.
  void Pass(std::uint64_t offset) {
    if (offset - begin_ < kStep) return;
    file_.Advise(MappedFile::Access::kNone, begin_, offset - begin_);
    begin_ = offset;
  }

 private:
  static constexpr std::uint64_t kStep = 16 << 20;
  const MappedFile& file_;
  std::uint64_t begin_;
};

/// The text of a file without its byte order mark.
std::string_view TextOf(const MappedFile& file);

/// Reads an object into a row that has only its line. Errors: INVALID_ARGUMENT.
absl::Status ReadJsonRow(std::string_view text, FieldTable* fields, FoundRow* row);

/// May change the row.
using SeeRow = std::function<absl::Status(FoundRow* row)>;

/// Call `see` for each row of the file, with fields that they find in, or add to,
/// `*fields`. Errors: those of `see`; INVALID_ARGUMENT.
absl::Status ReadNdjsonRows(const MappedFile& file, FieldTable* fields, const SeeRow& see);
absl::Status ReadCsvRows(const MappedFile& file, FieldTable* fields, const SeeRow& see);
absl::Status ReadSpmatRows(const MappedFile& file, FieldTable* fields, const SeeRow& see);

}  // namespace hmann
