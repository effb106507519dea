#pragma once

#include "absl/status/status.h"
#include "index/attributes/attrs_file.h"

namespace hmann {

/// Checks every checksum, the order of dictionaries and values, and every bitmap.
/// Errors: DATA_LOSS naming the field and the place.
absl::Status VerifyAttrs(const AttrsFile& file);

/// Checks every checksum and the order of dictionaries, in one pass from end to end.
/// Errors: as VerifyAttrs.
absl::Status VerifyValues(const AttrsFile& file);

}  // namespace hmann
