#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/attributes.h"

namespace hmann {

/// A value of a row. Integers for kIntTag, kInt64 and kTime; doubles for kFloat64;
/// strings for kTag; bool for kBool. A row has several of a tag field: ascending, each
/// once.
struct AttributeCell {
  std::uint32_t field = 0;  ///< of AttributeRows::fields
  FilterValue value;
  auto operator<=>(const AttributeCell&) const = default;
};

/// A file of attributes: a row for each vector.
///
/// - .ndjson, .jsonl: an object on each line. A value is a string (a tag), a list of
///   strings or of whole numbers (tags), a number, true, false or null. Key "label" is
///   the label of the row's vector.
/// - .csv: names in the first line; RFC 4180. A column "label" is the label. Empty cells
///   have no value. Tags of a row are separated by '|'.
/// - .spmat: as the filter track of big-ann-benchmarks has them (i64 rows, columns,
///   values; i64 indptr[rows + 1]; i32 indices[values]; f32 data[values]): one kIntTag
///   field "tags".
///
/// Without labels, row i is the vector with label i.
class AttributeRows {
 public:
  virtual ~AttributeRows() = default;
  /// Reads the file once to find its fields and to check it. `given`: types of some
  /// fields, which the values are then converted to; other fields are inferred: all
  /// values whole numbers (kInt64), all numbers (kFloat64), all bool, all strings with
  /// date, time and zone (kTime), else strings (kTag); a list makes it a tag field.
  /// Errors: those of files; INVALID_ARGUMENT naming the line (or byte), the field, what
  /// was expected and what was found.
  static absl::StatusOr<std::unique_ptr<AttributeRows>> Open(
      const std::string& path, const std::vector<AttributeField>& given = {});

  const std::vector<AttributeField>& fields() const { return fields_; }
  std::uint64_t rows() const { return rows_; }
  bool has_labels() const { return has_labels_; }

  /// Calls `visit` for each row, in order. `label`: the row's number if there are no
  /// labels. Errors: those of `visit`, and those of Open if the file has changed.
  using Visit = std::function<absl::Status(std::uint64_t row, std::uint64_t label,
                                           std::span<const AttributeCell> cells)>;
  virtual absl::Status ForEach(const Visit& visit) const = 0;

 protected:
  std::vector<AttributeField> fields_;
  std::uint64_t rows_ = 0;
  bool has_labels_ = false;
};

}  // namespace hmann
