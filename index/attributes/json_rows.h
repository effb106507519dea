#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/attributes.h"
#include "index/attributes/field_table.h"
#include "index/attributes/rows.h"

namespace hmann {

/// Reads rows that are JSON objects, one at a time, for fields that are known. Values are
/// as in a line of an .ndjson file, without a label. Not thread-safe.
class JsonRows {
 public:
  /// Errors: INVALID_ARGUMENT for names that cannot be those of fields.
  static absl::StatusOr<JsonRows> Of(const std::vector<AttributeField>& fields);

  /// Overwrites *cells. They have the places of `fields`, and the order of
  /// AttributeRows::ForEach. Errors: INVALID_ARGUMENT naming the field, what was expected
  /// and what was found; also for any other field.
  absl::Status Read(std::string_view object, std::vector<AttributeCell>* cells);

 private:
  explicit JsonRows(FieldTable table) : table_(std::move(table)) {}
  FieldTable table_;
};

/// The object of a row, from which JsonRows makes the same cells.
std::string JsonOf(std::span<const AttributeField> fields, std::span<const AttributeCell> cells);

}  // namespace hmann
