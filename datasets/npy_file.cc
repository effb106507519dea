#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <regex>
#include <span>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "datasets/file_vectors.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr const char kMagic[] = "\x93NUMPY";
constexpr std::size_t kHeaderBytes = 128;  // of a file that is written here

struct Array {
  std::string type;  ///< kind and bytes of a component: "f4", "u1"
  std::size_t item_bytes = 0;
  bool big_endian = false, by_column = false;
  std::uint64_t n = 0, dim = 1;
  bool is_flat = false;      ///< of shape (n,)
  std::uint64_t offset = 0;  ///< of the components
};

/// Parses the header: a Python dictionary, which numpy writes in one form only.
absl::StatusOr<Array> ParseHeader(const std::string& path, std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = 1024;  // also bounds the recursion of std::regex
  const std::string head(reinterpret_cast<const char*>(bytes.data()),
                         std::min(bytes.size(), kMost));
  const std::size_t begin = head.size() > 6 && head[6] == 1 ? 10 : 12;
  if (!head.starts_with(kMagic) || head.size() < begin)
    return InvalidArgument(path, ": not a .npy file of numpy");
  Array array;
  const auto byte = [&](std::size_t i) {
    return std::uint64_t{static_cast<unsigned char>(head[i])};
  };
  array.offset = begin + byte(8) + (byte(9) << 8);
  if (begin == 12) array.offset += (byte(10) << 16) + (byte(11) << 24);
  static const std::regex kDictionary(
      R"(\{'descr': '([<>|=])([a-zA-Z])(\d+)', 'fortran_order': (True|False), )"
      R"('shape': \((\d+), ?(\d+)?,?\),? ?\}\s*)");
  std::smatch found;
  const std::string text = head.substr(begin, std::max<std::uint64_t>(array.offset, begin) - begin);
  if (array.offset > head.size() || !std::regex_match(text, found, kDictionary)) {
    return InvalidArgument(path, ": expected an array of shape (n, dim) of numbers, found ",
                           text.substr(0, text.find_last_not_of(" \n") + 1));
  }
  array.type = found[2].str() + found[3].str();
  array.big_endian = found[1] == ">";
  array.by_column = found[4] == "True";
  array.is_flat = !found[6].matched;
  if (!absl::SimpleAtoi(found[3].str(), &array.item_bytes) ||
      !absl::SimpleAtoi(found[5].str(), &array.n) ||
      (!array.is_flat && !absl::SimpleAtoi(found[6].str(), &array.dim)) ||
      array.n > std::numeric_limits<std::uint32_t>::max() || array.dim > kMaxDim ||
      array.item_bytes > 16 ||
      bytes.size() != array.offset + array.n * array.dim * array.item_bytes) {
    return InvalidArgument(path, ": ", bytes.size(), " bytes found, another number than ", text,
                           " tells of, or more vectors or dimensions than an index holds");
  }
  return array;
}

std::optional<DType> TypeOf(const Array& array) {
  if (array.type == "f4" || array.type == "f8") return DType::kF32;
  if (array.type == "f2") return DType::kF16;
  if (array.type == "u1") return DType::kU8;
  if (array.type == "i1") return DType::kI8;
  return std::nullopt;
}

/// Copies a component in the byte order of this machine.
void Load(const Array& array, const std::byte* from, std::byte* to) {
  std::copy_n(from, array.item_bytes, to);
  if (array.big_endian) std::reverse(to, to + array.item_bytes);
}

}  // namespace

absl::StatusOr<FileVectors> ReadNpyVectors(const std::string& path, std::uint64_t rows) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  HMANN_ASSIGN_OR_RETURN(const Array array, ParseHeader(path, file.bytes()));
  const std::optional<DType> dtype = TypeOf(array);
  if (!dtype.has_value() || array.is_flat || array.n == 0 || array.dim == 0) {
    return InvalidArgument(path,
                           ": expected float16, 32, 64, uint8 or int8 of shape (n, dim), "
                           "found ",
                           array.type, " of shape (", array.n, ",",
                           array.is_flat ? "" : absl::StrCat(" ", array.dim), ")");
  }
  if (rows > array.n)
    return InvalidArgument(path, ": ", rows, " rows asked for, the file holds ", array.n);
  FileVectors vectors{.dtype = *dtype,
                      .layout = {.offset = array.offset,
                                 .stride = array.dim * SizeOf(*dtype),
                                 .n = rows == 0 ? array.n : rows,
                                 .dim = static_cast<std::uint32_t>(array.dim)},
                      .memory = {}};
  const std::size_t size = SizeOf(*dtype);
  if (!array.by_column && !array.big_endian && size == array.item_bytes) return vectors;
  vectors.layout.offset = 0;
  HMANN_RETURN_IF_ERROR(vectors.Allocate(path, "of another order or type than is searched"));
  const std::byte* from = file.bytes().data() + array.offset;
  std::byte* to = vectors.memory.data();
  for (std::uint64_t i = 0; i < vectors.layout.n; ++i) {
    for (std::uint64_t c = 0; c < array.dim; ++c, to += size) {
      const std::uint64_t at = array.by_column ? c * array.n + i : i * array.dim + c;
      std::byte item[16];
      Load(array, from + at * array.item_bytes, item);
      if (size != array.item_bytes) {
        double wide;
        std::memcpy(&wide, item, sizeof(wide));
        const auto narrowed = static_cast<float>(wide);
        std::memcpy(item, &narrowed, sizeof(narrowed));
      }
      std::copy_n(item, size, to);
    }
  }
  return vectors;
}

absl::StatusOr<std::vector<std::uint64_t>> ReadNpyLabels(const std::string& path,
                                                         std::optional<std::uint64_t> n) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  HMANN_ASSIGN_OR_RETURN(const Array array, ParseHeader(path, file.bytes()));
  const bool whole = array.type[0] == 'i' || array.type[0] == 'u';
  if (!whole || array.item_bytes > 8 || array.item_bytes < 4 || array.dim != 1 ||
      array.n != n.value_or(array.n)) {
    return InvalidArgument(path, ": expected ", n.value_or(array.n),
                           " whole numbers of 4 or 8 bytes, found ", array.type, " of ", array.n,
                           " x ", array.dim);
  }
  std::vector<std::uint64_t> labels(array.n);
  for (std::uint64_t i = 0; i < array.n; ++i) {
    std::byte item[8] = {};
    Load(array, file.bytes().data() + array.offset + i * array.item_bytes, item);
    std::memcpy(&labels[i], item, 8);
    if (array.type[0] != 'i' || labels[i] >> (8 * array.item_bytes - 1) == 0) continue;
    return InvalidArgument(path, ": a negative label found at ", i, ", 0 to 2^63 - 1 expected");
  }
  return labels;
}

std::string NpyHeader(DType dtype, std::uint64_t n, std::uint32_t dim) {
  const char* type = dtype == DType::kF32   ? "<f4"
                     : dtype == DType::kF16 ? "<f2"
                     : dtype == DType::kU8  ? "|u1"
                                            : "|i1";
  std::string header = absl::StrCat(kMagic, std::string("\x01\0\x76\0", 4), "{'descr': '", type,
                                    "', 'fortran_order': False, 'shape': (", n, ", ", dim, "), }");
  header.resize(kHeaderBytes - 1, ' ');
  return header + '\n';
}

}  // namespace hmann
