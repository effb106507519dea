#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/attributes.h"
#include "index/attributes/rows.h"

namespace hmann {

/// The rows of an open file of attributes, read back: one for each vector of the index.
/// Number and label of a row are the vector's internal id.
class StoredRows final : public AttributeRows {
 public:
  /// Compares the columns, which are read in place, with their checksums. Errors:
  /// DATA_LOSS.
  static absl::StatusOr<std::unique_ptr<StoredRows>> Open(
      std::shared_ptr<const Attributes> attributes);

  /// In the order of ids. Takes 8 bytes for each value of 65,536 rows, and 64 for each
  /// tag of the file. Errors: those of `visit`; DATA_LOSS.
  absl::Status ForEach(const Visit& visit) const override;

 private:
  explicit StoredRows(std::shared_ptr<const Attributes> attributes);
  std::shared_ptr<const Attributes> attributes_;
};

/// The cells of the vector with this id, which is below the number of vectors; fields
/// count as in Attributes::fields. Looks for it among the vectors of every tag. Errors:
/// DATA_LOSS.
absl::StatusOr<std::vector<AttributeCell>> CellsOf(const Attributes& attributes, std::uint32_t id);

}  // namespace hmann
