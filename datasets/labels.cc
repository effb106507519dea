#include "datasets/labels.h"

#include <cstring>

#include "datasets/file_vectors.h"
#include "datasets/row_layout.h"
#include "datasets/vector_file.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<std::vector<std::uint64_t>> ReadLabels(const std::string& path,
                                                      std::optional<std::uint64_t> expected) {
  const std::string suffix = FormatSuffix(path);
  if (suffix == ".npy") return ReadNpyLabels(path, expected);
  if (suffix == ".txt")
    return InvalidArgument(path, ": expected numbers; strings are labels of collections alone");
  if (DTypeOfSuffix(path).ok())
    return InvalidArgument(path, ": suffix '", suffix,
                           "' found, expected .npy, .ibin, .ivecs or a raw file of 8-byte labels");
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::vector<std::uint64_t> labels;
  if (suffix != ".ivecs" && suffix != ".ibin") {
    const std::uint64_t n = expected.value_or(file.bytes().size() / 8);
    if (file.bytes().size() % 8 != 0 || file.bytes().size() / 8 != n) {
      return InvalidArgument(path, ": ", file.bytes().size(), " bytes found, ", n,
                             " labels of 8 bytes expected (or .npy, .ibin, .ivecs)");
    }
    labels.resize(n);
    if (n > 0) std::memcpy(labels.data(), file.bytes().data(), 8 * n);
    return labels;
  }
  const bool vecs = suffix == ".ivecs";
  const auto rows = (vecs ? VecsLayout : BinLayout)(path, file.bytes(), 4, 0, 1);
  if (!rows.ok()) return WithFormat(rows.status(), path, file.bytes());
  const RowLayout& layout = *rows;
  const std::uint64_t n = expected.value_or(layout.n);
  if (layout.n != n)
    return InvalidArgument(path, ": ", layout.n, " labels found, ", n, " expected");
  if (vecs) HMANN_RETURN_IF_ERROR(CheckVecsDims(path, file.bytes(), layout, 0, n));
  labels.resize(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    labels[i] = ReadU32(file.bytes(), layout.offset + i * layout.stride);
    if (labels[i] > 0x7fffffff) {
      return InvalidArgument(path, ": offset ", layout.offset + i * layout.stride, ": label ",
                             labels[i], " (-", (1ull << 32) - labels[i],
                             ", if it is signed) found, 0 to 2147483647 expected");
    }
  }
  return labels;
}

}  // namespace hmann
