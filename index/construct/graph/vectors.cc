#include "index/construct/graph/vectors.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<StoredVectors> LoadVectors(const VectorFile& file, const Kernels& kernels,
                                          const TaskContext& job) {
  return LoadVectors(file, kernels, 0, file.n(), job);
}

absl::StatusOr<StoredVectors> LoadVectors(const VectorFile& file, const Kernels& kernels,
                                          std::uint64_t first, std::uint64_t last,
                                          const TaskContext& job) {
  StoredVectors vectors;
  vectors.stride = RowStride(kernels);
  HMANN_ASSIGN_OR_RETURN(vectors.rows, Buffer::Allocate((last - first) * vectors.stride));
  // Reports the error of the first bad row, whatever the threads do.
  std::mutex mutex;
  FirstError error;
  job.pool.ParallelFor(last - first, 4096, [&](std::size_t begin, std::size_t end, int) {
    if (const std::lock_guard lock(mutex); first + begin > error.item || job.Cancelled()) return;
    for (std::size_t i = begin; i < end; ++i) {
      const absl::Status status = EncodeRow(kernels, file.dtype(), file.Row(first + i),
                                            vectors.rows.data() + i * vectors.stride);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      return error.Note(first + i, status);
    }
    job.progress.Advance(end - begin);
  });
  HMANN_RETURN_IF_ERROR(error.Named(absl::StrCat(file.path(), ": vector ")));
  HMANN_RETURN_IF_ERROR(job.CheckCancelled());
  return vectors;
}

}  // namespace hmann
