#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "index/base/job.h"

namespace hmann {

constexpr std::uint32_t kNoRow = 0xffffffff;

/// For each row of a file, `k` others near it under L2, nearest first, kNoRow where there
/// are fewer: [row][k]. Of most rows nearly all of the nearest, by leaves of a partition.
/// A function of file and k alone. Errors: as LoadVectors.
absl::StatusOr<std::vector<std::uint32_t>> NearRows(const VectorFile& file, std::uint32_t k,
                                                    const Job& job);

}  // namespace hmann
