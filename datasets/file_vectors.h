/// Readers of formats that are not plain rows behind a short header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/row_layout.h"
#include "hmann/distance.h"
#include "index/base/buffer.h"

namespace hmann {

/// The vectors of a file. Either `memory` is empty and `layout` describes the file, for
/// mapping, or `memory` holds the rows.
struct FileVectors {
  DType dtype = DType::kF32;
  RowLayout layout;
  Buffer memory;

  /// Allocates `memory` for layout.n rows. Errors: RESOURCE_EXHAUSTED, which names `path`
  /// and `why` it cannot be mapped.
  absl::Status Allocate(const std::string& path, const char* why);
};

/// numpy's .npy: an array of shape (n, dim) of float16, 32, 64, uint8 or int8, in either
/// byte order, stored by row or by column. Rows of our types are mapped; others are read
/// into memory, float64 as f32. `rows`: 0 = all. Errors: as VectorFile::Open.
absl::StatusOr<FileVectors> ReadNpyVectors(const std::string& path, std::uint64_t rows);

/// numpy's .npy: whole numbers of 4 or 8 bytes, none negative. `n` and errors: as
/// ReadLabels.
absl::StatusOr<std::vector<std::uint64_t>> ReadNpyLabels(const std::string& path,
                                                         std::optional<std::uint64_t> n);

/// The header of a .npy file of n x dim components. It takes 128 bytes for any n.
std::string NpyHeader(DType dtype, std::uint64_t n, std::uint32_t dim);

/// Text with a vector on each line, components separated by commas, semicolons, tabs or
/// spaces. A first line without numbers is a header. Read into memory as f32. `rows`: 0 =
/// all. Errors: as VectorFile::Open, with the line.
absl::StatusOr<FileVectors> ReadCsvVectors(const std::string& path, std::uint64_t rows);

}  // namespace hmann
