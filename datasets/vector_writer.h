#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "hmann/progress.h"
#include "index/base/file.h"

namespace hmann {

/// Writes a vector file row by row, in the format that its suffix selects. The file
/// appears whole or not at all. Move-only.
class VectorWriter {
 public:
  /// `of_npy`: the dtype of a .npy file; other suffixes name theirs. Errors: as
  /// DTypeOfSuffix; INVALID_ARGUMENT for dim 0 or above kMaxDim; as AtomicFile.
  static absl::StatusOr<VectorWriter> Create(const std::string& path, std::uint32_t dim,
                                             DType of_npy = DType::kF32);

  DType dtype() const { return dtype_; }

  /// `rows`: n x dim components of dtype(), row-major.
  absl::Status Append(const std::byte* rows, std::uint64_t n);

  /// Errors: INVALID_ARGUMENT if nothing was appended, or 2^32 or more rows to a .?bin
  /// file; as AtomicFile.
  absl::Status Commit();

 private:
  std::string Header() const;
  bool has_row_dims() const { return suffix_ == ".fvecs" || suffix_ == ".bvecs"; }

  std::string path_, suffix_;
  AtomicFile file_;
  DType dtype_ = DType::kF32;
  std::uint32_t dim_ = 0;
  std::uint64_t n_ = 0;
};

/// Writes n rows to a vector file in blocks. `make` makes each row from its number and
/// the place to write it (dim components, unaligned); any of the threads may call it.
/// `threads`: 0: UsableCores(). Errors: as VectorWriter; CANCELLED soon after `cancelled`
/// (not owned) becomes true.
absl::Status WriteMadeRows(const std::string& path, std::uint32_t dim, std::uint64_t n, int threads,
                           const std::function<void(std::uint64_t, std::byte*)>& make,
                           Progress& progress, const std::atomic<bool>* cancelled = nullptr);

/// Converts components exactly or not at all, except that f16 are rounded, as EncodeRow
/// does. Both rows have dim components, unaligned. Errors: INVALID_ARGUMENT naming the
/// component that `to` cannot hold (a fraction, out of range, not finite), as EncodeRow
/// for f16.
absl::Status ConvertRow(DType from, const std::byte* in, DType to, std::byte* out,
                        std::uint32_t dim);

/// Writes all rows of `from` to `path`, in the format and dtype of its suffix. It streams
/// the rows. Errors: as VectorWriter; INVALID_ARGUMENT with row and component for a value
/// that the new dtype cannot hold (see ConvertRow).
absl::Status ConvertVectors(const VectorFile& from, const std::string& path, Progress& progress);

}  // namespace hmann
