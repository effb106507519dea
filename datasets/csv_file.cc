#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "datasets/file_vectors.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

std::vector<absl::string_view> Fields(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(",; \t\r"), absl::SkipEmpty());
}

bool IsHeader(const std::vector<absl::string_view>& fields) {
  float number;
  return std::none_of(fields.begin(), fields.end(),
                      [&](absl::string_view field) { return absl::SimpleAtof(field, &number); });
}

}  // namespace

absl::StatusOr<FileVectors> ReadCsvVectors(const std::string& path, std::uint64_t rows) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  FileVectors vectors;
  RowLayout& layout = vectors.layout;
  std::uint64_t line_number = 0, n = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    const std::vector<absl::string_view> fields = Fields(line);
    if (fields.empty() || (line_number == 1 && IsHeader(fields))) continue;
    if (n == 0) {
      if (fields.size() > kMaxDim)
        return InvalidArgument(path, ": ", fields.size(), " columns, at most ", kMaxDim,
                               " expected");
      layout.dim = static_cast<std::uint32_t>(fields.size());
      layout.stride = layout.dim * sizeof(float);
      const std::uint64_t lines = std::count(text.begin(), text.end(), '\n') + 1;
      layout.n = rows > 0 ? std::min(rows, lines) : lines;
      HMANN_RETURN_IF_ERROR(vectors.Allocate(path, "text"));
    }
    if (fields.size() != layout.dim) {
      return InvalidArgument(path, ": line ", line_number, ": ", fields.size(), " numbers found, ",
                             layout.dim, " expected as before");
    }
    for (std::uint32_t c = 0; c < layout.dim; ++c) {
      float number;
      if (!absl::SimpleAtof(fields[c], &number)) {
        return InvalidArgument(path, ": line ", line_number, ", column ", c + 1, ": '",
                               fields[c].substr(0, 20), "' found, a number expected");
      }
      std::memcpy(vectors.memory.data() + n * layout.stride + c * sizeof(float), &number,
                  sizeof(number));
    }
    if (++n == rows) break;
  }
  if (n == 0 || n < rows)
    return InvalidArgument(path, ": ", n, " vectors found, ", std::max<std::uint64_t>(rows, 1),
                           " expected");
  layout.n = n;
  return vectors;
}

}  // namespace hmann
