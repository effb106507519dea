#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann {

/// n labels: a raw file of n u64, or an .ivecs or .ibin file with dim 1 (then not
/// negative). Errors: as open(2); INVALID_ARGUMENT naming expected and found when the
/// file does not hold n labels.
absl::StatusOr<std::vector<std::uint64_t>> ReadLabels(const std::string& path, std::uint64_t n);

}  // namespace hmann
