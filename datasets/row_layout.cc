#include "datasets/row_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "hmann/distance.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

static_assert(std::endian::native == std::endian::little,
              "vector files are little-endian and mapped as they are");

constexpr std::uint64_t kBinHeaderBytes = 8;
constexpr std::uint64_t kSampledRows = 4096;
constexpr char kCrop[] = ".crop_nb_";  ///< of a name; the number of rows that were kept follows

absl::Status CheckDim(const std::string& path, std::uint64_t offset, std::uint32_t dim,
                      std::uint32_t most_dim) {
  if (dim >= 1 && dim <= most_dim) return absl::OkStatus();
  return InvalidArgument(path, ": offset ", offset, ": dimension ", dim, " found, 1 to ", most_dim,
                         " expected");
}

absl::Status CheckRows(const std::string& path, std::uint64_t rows, std::uint64_t n) {
  if (rows <= n) return absl::OkStatus();
  return InvalidArgument(path, ": ", rows, " rows asked for, the file holds ", n);
}

absl::Status CheckVecsDim(const std::string& path, std::span<const std::byte> bytes,
                          const RowLayout& layout, std::uint64_t row) {
  const std::uint64_t offset = row * layout.stride;
  const std::uint32_t dim = ReadU32(bytes, offset);
  if (dim == layout.dim) return absl::OkStatus();
  return InvalidArgument(path, ": offset ", offset, ": row ", row, " has dimension ", dim,
                         ", row 0 has ", layout.dim);
}

}  // namespace

std::uint32_t ReadU32(std::span<const std::byte> bytes, std::uint64_t offset) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::string FormatSuffix(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (const std::size_t crop = name.rfind(kCrop); crop != std::string::npos) name.resize(crop);
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : absl::AsciiStrToLower(name.substr(dot));
}

bool IsTruthSuffix(const std::string& suffix) {
  return suffix == ".ibin" || suffix == ".ivecs" || suffix.starts_with(".gt");
}

std::pair<std::string, std::string> SplitHdf5Path(const std::string& path) {
  const std::size_t colon = path.rfind(':');
  if (colon == std::string::npos) return {path, ""};
  const std::string file = path.substr(0, colon);
  if (FormatSuffix(file) != ".hdf5" && FormatSuffix(file) != ".h5") return {path, ""};
  return {file, path.substr(colon + 1)};
}

absl::StatusOr<RowLayout> BinLayout(const std::string& path, std::span<const std::byte> bytes,
                                    std::size_t component_bytes, std::uint64_t rows,
                                    std::uint32_t most_dim) {
  if (bytes.size() < kBinHeaderBytes) {
    return InvalidArgument(path, ": ", bytes.size(), " bytes found, a header of ", kBinHeaderBytes,
                           " expected");
  }
  RowLayout layout{
      .offset = kBinHeaderBytes, .stride = 0, .n = ReadU32(bytes, 0), .dim = ReadU32(bytes, 4)};
  HMANN_RETURN_IF_ERROR(CheckDim(path, 4, layout.dim, most_dim));
  if (layout.n == 0) return InvalidArgument(path, ": offset 0: the header says 0 vectors");
  HMANN_RETURN_IF_ERROR(CheckRows(path, rows, layout.n));
  layout.stride = static_cast<std::uint64_t>(layout.dim) * component_bytes;
  const auto size_of = [&layout](std::uint64_t n) {
    return kBinHeaderBytes + static_cast<unsigned __int128>(n) * layout.stride;
  };
  const bool fits = rows == 0 ? bytes.size() == size_of(layout.n)
                              : bytes.size() >= size_of(rows) && bytes.size() <= size_of(layout.n);
  if (!fits) {
    const unsigned __int128 expected =
        rows == 0 || bytes.size() > size_of(layout.n) ? size_of(layout.n) : size_of(rows);
    const std::string size =
        expected >> 64 != 0 ? "more than 2^64" : absl::StrCat(static_cast<std::uint64_t>(expected));
    const std::uint64_t whole = (bytes.size() - kBinHeaderBytes) / layout.stride;
    const bool cropped = rows == 0 && whole > 0 && whole < layout.n &&
                         (bytes.size() == size_of(whole) || absl::StrContains(path, kCrop));
    return InvalidArgument(
        path, ": ", bytes.size(), " bytes found, ", size, " expected for ",
        rows == 0 ? layout.n : rows, " x ", layout.dim, " of ", component_bytes,
        " bytes (header: n = ", layout.n, ", dim = ", layout.dim, ")",
        cropped ? absl::StrCat("; if only the first ", whole, " rows were kept: --rows ", whole)
                : "");
  }
  if (rows != 0) layout.n = rows;
  return layout;
}

absl::StatusOr<RowLayout> VecsLayout(const std::string& path, std::span<const std::byte> bytes,
                                     std::size_t component_bytes, std::uint64_t rows,
                                     std::uint32_t most_dim) {
  if (bytes.empty()) return InvalidArgument(path, ": empty file, at least one vector expected");
  if (bytes.size() < 4) {
    return InvalidArgument(path, ": ", bytes.size(),
                           " bytes found, a dimension of 4 bytes expected");
  }
  RowLayout layout{.offset = 4, .stride = 0, .n = 0, .dim = ReadU32(bytes, 0)};
  HMANN_RETURN_IF_ERROR(CheckDim(path, 0, layout.dim, most_dim));
  layout.stride = 4 + static_cast<std::uint64_t>(layout.dim) * component_bytes;
  layout.n = bytes.size() / layout.stride;
  // Rows of different dims often leave a remainder, too. Look at the second row first,
  // for the better message.
  if (layout.n > 1) HMANN_RETURN_IF_ERROR(CheckVecsDim(path, bytes, layout, 1));
  if (layout.n * layout.stride != bytes.size()) {
    return InvalidArgument(path, ": ", bytes.size(), " bytes found, a multiple of ", layout.stride,
                           " expected (4 + ", layout.dim, " x ", component_bytes, " a row)");
  }
  HMANN_RETURN_IF_ERROR(CheckRows(path, rows, layout.n));
  if (rows != 0) layout.n = rows;
  const std::uint64_t step = std::max<std::uint64_t>(1, layout.n / kSampledRows);
  for (std::uint64_t row = 0; row < layout.n; row += step)
    HMANN_RETURN_IF_ERROR(CheckVecsDim(path, bytes, layout, row));
  HMANN_RETURN_IF_ERROR(CheckVecsDim(path, bytes, layout, layout.n - 1));
  return layout;
}

absl::Status WithFormat(const absl::Status& error, const std::string& path,
                        std::span<const std::byte> bytes) {
  constexpr std::tuple<const char*, decltype(&BinLayout), std::size_t> kFormats[] = {
      {".fbin or .ibin", BinLayout, 4},    {".f16bin", BinLayout, 2},
      {".u8bin or .i8bin", BinLayout, 1},  {".gt", BinLayout, 8},
      {".fvecs or .ivecs", VecsLayout, 4}, {".bvecs", VecsLayout, 1}};
  for (const auto& [suffixes, layout, component_bytes] : kFormats) {
    if (!absl::StrContains(suffixes, FormatSuffix(path)) &&
        layout(path, bytes, component_bytes, 0, kMaxDim).ok())
      // The shape, what the header says, and --rows would not help.
      return InvalidArgument(error.message().substr(0, error.message().rfind(" for ")),
                             ": its content is ", suffixes, ", rename it");
  }
  return error;
}

absl::Status CheckVecsDims(const std::string& path, std::span<const std::byte> bytes,
                           const RowLayout& layout, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t row = begin; row < end; ++row)
    HMANN_RETURN_IF_ERROR(CheckVecsDim(path, bytes, layout, row));
  return absl::OkStatus();
}

}  // namespace hmann
