/// The location of the rows in a vector file. There is one function per family of
/// formats; each checks the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann {

/// Row i is the `dim` components at offset + i * stride.
struct RowLayout {
  std::uint64_t offset = 0;
  std::uint64_t stride = 0;
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
};

/// Layout of `.fbin` `.u8bin` `.i8bin` `.ibin`: u32 n, u32 dim, then n * dim components.
/// `bytes` is the whole file. rows = 0 takes all rows and requires the exact size.
/// Otherwise only the first `rows` are used, and the file may end anywhere after them,
/// like a prefix of a larger file with the original header. Errors: INVALID_ARGUMENT
/// naming file, expected and found for a short or long file (if it may be such a prefix,
/// also the `--rows` that reads it), n or dim 0, dim above `most_dim`, rows above n.
absl::StatusOr<RowLayout> BinLayout(const std::string& path, std::span<const std::byte> bytes,
                                    std::size_t component_bytes, std::uint64_t rows,
                                    std::uint32_t most_dim);

/// Layout of `.fvecs` `.bvecs` `.ivecs`: per row i32 dim, then dim components. n follows
/// from the size. This compares the dims of the first, the last and up to 4096 rows
/// between; CheckVecsDims compares all. Errors: as BinLayout; for rows of different dim
/// also row and offset.
absl::StatusOr<RowLayout> VecsLayout(const std::string& path, std::span<const std::byte> bytes,
                                     std::size_t component_bytes, std::uint64_t rows,
                                     std::uint32_t most_dim);

/// The error of a file whose content has not the format of its suffix. Adds the suffix
/// whose format it has, as in "...; its content is .fvecs or .ivecs", if there is one.
absl::Status WithFormat(const absl::Status& error, const std::string& path,
                        std::span<const std::byte> bytes);

/// Compares the dims written before rows [begin, end) of a `.?vecs` file. Errors:
/// INVALID_ARGUMENT with row and offset.
absl::Status CheckVecsDims(const std::string& path, std::span<const std::byte> bytes,
                           const RowLayout& layout, std::uint64_t begin, std::uint64_t end);

/// Reads a little-endian u32 at `offset`, which the caller has checked.
std::uint32_t ReadU32(std::span<const std::byte> bytes, std::uint64_t offset);

/// The format suffix of a path, lower case, with the dot: ".u8bin" for
/// "base.1B.u8bin.crop_nb_10000000"; "" if there is none.
std::string FormatSuffix(const std::string& path);

/// Whether files with this suffix hold exact neighbors: .ibin, .ivecs, .gt or .gt100.
bool IsTruthSuffix(const std::string& suffix);

/// "x.hdf5:test" gives {"x.hdf5", "test"}; any other path gives {path, ""}.
std::pair<std::string, std::string> SplitHdf5Path(const std::string& path);

}  // namespace hmann
