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

/// Reads rows that are JSON objects, one at a time. Values are as in a line of an .ndjson
/// file, without a label. A field that is new gets the type of its first value. Not
/// thread-safe.
class JsonRows {
 public:
  /// Errors: INVALID_ARGUMENT for names that cannot be those of fields.
  static absl::StatusOr<JsonRows> Of(const std::vector<AttributeField>& known);

  /// Overwrites *cells. They have the places of fields(), and the order of
  /// AttributeRows::ForEach. `named`, unless null, gets the places of all fields of
  /// fields() that the object names, ascending. Errors: INVALID_ARGUMENT naming the
  /// field, what was expected and what was found.
  absl::Status Read(std::string_view object, std::vector<AttributeCell>* cells,
                    std::vector<std::uint32_t>* named = nullptr);

  /// The known ones, then those that are new and had a value.
  const std::vector<AttributeField>& fields() const { return fields_; }

 private:
  JsonRows(FieldTable table, const std::vector<AttributeField>& known);
  FieldTable table_;
  std::vector<AttributeField> fields_;
  std::vector<std::uint32_t> places_;  ///< in fields_, by numbers of the table
};

/// The object of a row, from which JsonRows makes the same cells. JsonRows reads at most
/// kMostLineBytes.
std::string JsonOf(std::span<const AttributeField> fields, std::span<const AttributeCell> cells);

}  // namespace hmann
