#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/attributes.h"
#include "index/attributes/json_rows.h"
#include "index/collection/segment.h"

namespace hmann {

/// Reads the attributes of rows. A field that is new gets its type by its first value.
class AttributeReader {
 public:
  explicit AttributeReader(std::vector<AttributeField> fields) : fields_(std::move(fields)) {}

  /// `object`: JSON. Errors: INVALID_ARGUMENT naming the field.
  absl::Status Read(std::string_view object, AttributeCells* cells);
  const std::vector<AttributeField>& fields() const { return fields_; }

 private:
  std::vector<AttributeField> fields_;
  std::optional<JsonRows> rows_;  ///< for these
};

/// `object` with the members of `patch` in place of its own; those that are null are left
/// out. Errors: INVALID_ARGUMENT for a patch that is no JSON object.
absl::StatusOr<std::string> PatchedAttributes(std::string_view object, std::string_view patch);

}  // namespace hmann
