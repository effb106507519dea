#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "index/base/task_context.h"

namespace hmann {

constexpr std::uint32_t kNoRow = 0xffffffff;

/// For each row of a file, `k` other rows near it under L2, nearest first, padded with
/// kNoRow: [row][k]. Leaves of a partition find nearly all of the nearest of most rows.
/// The result depends on file and k alone. Errors: as LoadVectors.
absl::StatusOr<std::vector<std::uint32_t>> NearRows(const VectorFile& file, std::uint32_t k,
                                                    const TaskContext& job);

}  // namespace hmann
