#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "index/base/buffer.h"
#include "index/base/prefetch.h"
#include "index/base/task_context.h"

namespace hmann {

/// Stored vectors at one stride, as the kernels require.
struct StoredVectors {
  Buffer rows;
  std::size_t stride = 0;
  const std::byte* Row(std::size_t i) const { return rows.data() + i * stride; }
};

/// Whether links are made in one more dimension (lift.h). Rows have room for it then.
inline bool Lifts(DType dtype, Metric metric) {
  return IsFloat(dtype) && metric == Metric::kInnerProduct;
}

/// Cache-line stride of stored vectors in memory.
inline std::size_t RowStride(std::uint32_t row_bytes, DType dtype, Metric metric) {
  return RoundUp(row_bytes + (Lifts(dtype, metric) ? SizeOf(dtype) : 0), kCacheLineBytes);
}
inline std::size_t RowStride(const Kernels& kernels) {
  return RowStride(kernels.row_bytes, kernels.dtype, kernels.metric);
}

/// Encodes every vector of the file into the type of `kernels`, in parallel. Errors:
/// INVALID_ARGUMENT naming file and row (those of EncodeRow), RESOURCE_EXHAUSTED,
/// CANCELLED.
absl::StatusOr<StoredVectors> LoadVectors(const VectorFile& file, const Kernels& kernels,
                                          const TaskContext& job);
/// The same for rows [first, last) only.
absl::StatusOr<StoredVectors> LoadVectors(const VectorFile& file, const Kernels& kernels,
                                          std::uint64_t first, std::uint64_t last,
                                          const TaskContext& job);

}  // namespace hmann
