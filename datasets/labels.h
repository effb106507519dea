#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann {

/// Reads n labels (all if n is absent) from a raw file of u64, numpy's .npy, or an .ivecs
/// or .ibin file with dim 1, whose labels must not be negative. Errors: as open(2);
/// INVALID_ARGUMENT naming expected and found if the file does not hold n labels.
absl::StatusOr<std::vector<std::uint64_t>> ReadLabels(const std::string& path,
                                                      std::optional<std::uint64_t> n = {});

}  // namespace hmann
