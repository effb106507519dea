/// Where the rows of a vector file lie: one function per family of formats, each checked
/// against the file's size.
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

/// `.fbin` `.u8bin` `.i8bin` `.ibin`: u32 n, u32 dim, then n * dim components. `bytes` is
/// the whole file. rows = 0 takes all and wants the exact size; otherwise the first
/// `rows` are taken, and the file may end anywhere after them, as a prefix of a larger
/// file does that kept its header. Errors: INVALID_ARGUMENT naming file, expected and
/// found for a short or long file, n or dim 0, dim above `most_dim`, rows above n.
absl::StatusOr<RowLayout> BinLayout(const std::string& path, std::span<const std::byte> bytes,
                                    std::size_t component_bytes, std::uint64_t rows,
                                    std::uint32_t most_dim);

/// `.fvecs` `.bvecs` `.ivecs`: per row i32 dim, then dim components. n follows from the
/// size. The dims of the first, the last and up to 4096 rows between are compared here;
/// CheckVecsDims compares all. Errors: as BinLayout; rows of different dim with row and
/// offset.
absl::StatusOr<RowLayout> VecsLayout(const std::string& path, std::span<const std::byte> bytes,
                                     std::size_t component_bytes, std::uint64_t rows,
                                     std::uint32_t most_dim);

/// Compares the dims written before rows [begin, end) of a `.?vecs` file. Errors:
/// INVALID_ARGUMENT with row and offset.
absl::Status CheckVecsDims(const std::string& path, std::span<const std::byte> bytes,
                           const RowLayout& layout, std::uint64_t begin, std::uint64_t end);

/// A little-endian u32 at `offset`, which the caller has checked.
std::uint32_t ReadU32(std::span<const std::byte> bytes, std::uint64_t offset);

/// The format suffix of a path, lower case, with the dot: ".u8bin" for
/// "base.1B.u8bin.crop_nb_10000000"; "" when there is none.
std::string FormatSuffix(const std::string& path);

/// "x.hdf5:test" gives {"x.hdf5", "test"}; any other path gives {path, ""}.
std::pair<std::string, std::string> SplitHdf5Path(const std::string& path);

}  // namespace hmann
