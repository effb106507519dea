#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/attributes/field_table.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint64_t kSpmatHeader = 24;

/// The sparse matrix in a file, whose header is read first.
struct Spmat {
  const MappedFile& file;
  std::uint64_t rows = 0, values = 0;
  std::int64_t columns = 0;

  absl::Status ReadHeader();
  std::int64_t Number(std::uint64_t offset) const {
    std::int64_t number;
    std::memcpy(&number, file.bytes().data() + offset, sizeof(number));
    return number;
  }
  std::int64_t Pointer(std::uint64_t row) const { return Number(kSpmatHeader + 8 * row); }
  std::uint64_t indices() const { return kSpmatHeader + 8 * (rows + 1); }
};

absl::Status Spmat::ReadHeader() {
  const std::string& path = file.path();
  const std::uint64_t size = file.bytes().size();
  if (size < kSpmatHeader) {
    return InvalidArgument(path, ": expected a header of ", kSpmatHeader, " bytes, found ", size,
                           " bytes");
  }
  const std::int64_t header[] = {Number(0), Number(8), Number(16)};
  if (*std::min_element(header, header + 3) < 0) {
    return InvalidArgument(path, ": offset 0: expected numbers of rows, columns and values, found ",
                           header[0], ", ", header[1], " and ", header[2]);
  }
  rows = static_cast<std::uint64_t>(header[0]);
  columns = header[1];
  values = static_cast<std::uint64_t>(header[2]);
  // The bounds keep the sum from overflowing.
  if (rows > size / 8 || values > size / 8 || size != indices() + 8 * values) {
    return InvalidArgument(path, ": expected 24 + 8 * (rows + 1) + 8 * values bytes for ", rows,
                           " rows and ", values, " values, found ", size, " bytes");
  }
  return absl::OkStatus();
}

/// The tags of a row, ascending.
absl::Status ReadSpmatTags(const Spmat& matrix, std::uint64_t row, const FieldTable& fields,
                           std::vector<std::int32_t>* tags) {
  const auto wrong = [&](absl::string_view expected, absl::string_view found) {
    return fields.Unexpected(row, "", expected, found);
  };
  const auto values = static_cast<std::int64_t>(matrix.values);
  const std::int64_t begin = row == 0 ? 0 : matrix.Pointer(row), end = matrix.Pointer(row + 1);
  const bool last = row + 1 == matrix.rows;
  if (matrix.Pointer(0) != 0)
    return wrong("indptr 0 in front of it", absl::StrCat(matrix.Pointer(0)));
  if (end < (last ? values : begin) || end > values) {
    return wrong(absl::StrCat("indptr from ", last ? values : begin, " to ", values, " at its end"),
                 absl::StrCat(end));
  }
  const auto count = static_cast<std::size_t>(end - begin);
  if (count > kMostRowTags)
    return wrong(absl::StrCat("at most ", kMostRowTags, " tags"), absl::StrCat(count));
  tags->resize(count);
  if (count == 0) return absl::OkStatus();
  std::memcpy(tags->data(),
              matrix.file.bytes().data() + matrix.indices() + 4 * static_cast<std::size_t>(begin),
              4 * count);
  std::sort(tags->begin(), tags->end());
  for (const std::int32_t tag : {tags->front(), tags->back()}) {
    if (tag >= 0 && tag < matrix.columns) continue;
    return wrong(absl::StrCat("indices from 0 to ", matrix.columns - 1), absl::StrCat(tag));
  }
  const auto twice = std::adjacent_find(tags->begin(), tags->end());
  if (twice == tags->end()) return absl::OkStatus();
  return wrong("each index once", absl::StrCat(*twice, " twice"));
}

}  // namespace

absl::Status ReadSpmatRows(const MappedFile& file, FieldTable* fields, const SeeRow& see) {
  Spmat matrix{file};
  HMANN_RETURN_IF_ERROR(matrix.ReadHeader());
  HMANN_ASSIGN_OR_RETURN(const std::uint32_t field,
                         fields->Number(0, "tags", AttributeType::kIntTag));
  std::vector<std::int32_t> tags;
  FoundRow row;
  PagesBehind pointers(file), indices(file, matrix.indices());
  for (; row.line < matrix.rows; ++row.line) {
    HMANN_RETURN_IF_ERROR(ReadSpmatTags(matrix, row.line, *fields, &tags));
    row.values = {{field, FoundValue::kList, "a list"}};
    for (const std::int32_t tag : tags)
      row.values.push_back({field, FoundValue::kWhole, absl::StrCat(tag), tag});
    HMANN_RETURN_IF_ERROR(see(&row));
    pointers.Pass(kSpmatHeader + 8 * row.line);
    indices.Pass(matrix.indices() + 4 * static_cast<std::uint64_t>(matrix.Pointer(row.line + 1)));
  }
  return absl::OkStatus();
}

}  // namespace hmann
