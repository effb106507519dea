/// Reads vectors in any file format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/row_layout.h"
#include "hmann/distance.h"
#include "index/base/buffer.h"
#include "index/base/file.h"

namespace hmann {

/// The vectors of a mapped file, or vectors in memory. Pages of a mapping come and go
/// with use, so files larger than memory work.
///
/// The suffix selects the format: `.npy` of numpy, `.fvecs` `.bvecs`, `.fbin` `.f16bin`
/// `.u8bin` `.i8bin` (also followed by `.crop_nb_N`), `.csv`, `.hdf5` of ann-benchmarks
/// (`x.hdf5` and `x.hdf5:train` are the base, `x.hdf5:test` the queries). An HDF5 data
/// set that is chunked, or of doubles, cannot be mapped and is read into memory as f32;
/// so are text and other numpy arrays than C-ordered ones of our types.
///
/// Move-only. Thread-safe for reading.
class VectorFile {
 public:
  /// `rows`: 0 = all. Otherwise only the first `rows` are used, and a truncated prefix of
  /// a larger .?bin file is accepted. Errors: as open(2); INVALID_ARGUMENT naming file,
  /// offset, expected and found for a malformed file or unknown suffix;
  /// RESOURCE_EXHAUSTED for an unmappable data set that does not fit in
  /// memory.
  static absl::StatusOr<VectorFile> Open(const std::string& path, std::uint64_t rows = 0);
  /// Views vectors in the caller's memory, which must stay while this lives. Errors refer
  /// to them as `name`. Errors: INVALID_ARGUMENT for no vectors, dim 0 or above kMaxDim.
  static absl::StatusOr<VectorFile> View(std::string name, const void* data, DType dtype,
                                         const RowLayout& layout);

  const std::string& path() const { return path_; }
  DType dtype() const { return dtype_; }
  std::uint64_t n() const { return layout_.n; }
  std::uint32_t dim() const { return layout_.dim; }
  std::size_t row_bytes() const { return layout_.dim * SizeOf(dtype_); }
  /// Bytes from one row to the next.
  std::size_t stride() const { return layout_.stride; }

  /// dim components, unaligned, valid while this lives. i < n().
  const std::byte* Row(std::uint64_t i) const {
    return data_ + layout_.offset + i * layout_.stride;
  }

  /// Checks rows [begin, end) (end is cut at n): every f32 and f16 must be finite, every
  /// .?vecs row must have the same dimension. Errors: INVALID_ARGUMENT with file, row and
  /// component.
  absl::Status CheckFinite(std::uint64_t begin = 0, std::uint64_t end = ~std::uint64_t{0}) const;

  /// Checks that f32 distances of these vectors do not vanish, by the largest of some
  /// thousand rows. A small vector among larger ones is valid. Errors: INVALID_ARGUMENT.
  absl::Status CheckScale(Metric metric) const;

  /// Checks that these are vectors of `dim` x `dtype`, or f32 for f16, "as in" what
  /// `as_in` names. Errors: INVALID_ARGUMENT with file, expected and found.
  absl::Status CheckShape(std::uint32_t dim, DType dtype, const std::string& as_in) const;
  /// The same for queries, and converts them to the type that a search takes (QueryType):
  /// halves are widened, into memory. Errors: as CheckShape; RESOURCE_EXHAUSTED.
  absl::Status FitQueries(std::uint32_t dim, DType dtype, const std::string& as_in);

  /// Tells the kernel how rows [begin, end) will be read; does nothing for unmapped
  /// vectors.
  void Advise(MappedFile::Access access, std::uint64_t begin, std::uint64_t end) const;

 private:
  std::string path_;
  DType dtype_ = DType::kF32;
  RowLayout layout_;
  bool has_row_dims_ = false;  ///< .?vecs
  MappedFile file_;
  Buffer memory_;  ///< replaces the mapping if the format allows none
  const std::byte* data_ = nullptr;
};

/// The dtype of a format suffix that holds vectors (".u8bin"); f32 for .npy and .csv.
/// Errors: INVALID_ARGUMENT for .ibin, .ivecs (ids, not vectors) and for unknown
/// suffixes.
absl::StatusOr<DType> DTypeOfSuffix(const std::string& path);

}  // namespace hmann
