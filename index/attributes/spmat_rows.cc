#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/attributes/row_readers.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint64_t kSpmatHeader = 24;
constexpr char kSpmatField[] = "tags";

template <class T>
T ReadAt(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

class SpmatRows final : public AttributeRows {
 public:
  explicit SpmatRows(MappedFile file) : file_(std::move(file)) {}

  absl::Status Start(const std::vector<AttributeField>& given);
  absl::Status ForEach(const Visit& visit) const override;

 private:
  absl::Status CheckHeader();
  std::int64_t Pointer(std::uint64_t row) const {
    return ReadAt<std::int64_t>(file_.bytes(), kSpmatHeader + 8 * row);
  }
  absl::Status ReadTags(std::uint64_t row, std::vector<std::int32_t>* tags) const;
  absl::Status Wrong(std::uint64_t row, std::string_view expected, std::string_view found) const {
    return InvalidArgument(file_.path(), ": row ", row, ": expected ", AbslView(expected),
                           ", found ", AbslView(found));
  }

  MappedFile file_;
  std::uint64_t values_ = 0, indices_ = 0;  ///< their number, and where they begin
  std::int64_t columns_ = 0;
};

absl::Status SpmatRows::CheckHeader() {
  const std::string& path = file_.path();
  const std::uint64_t size = file_.bytes().size();
  if (size < kSpmatHeader) {
    return InvalidArgument(path, ": expected a header of ", kSpmatHeader, " bytes, found ", size,
                           " bytes");
  }
  const auto rows = ReadAt<std::int64_t>(file_.bytes(), 0);
  columns_ = ReadAt<std::int64_t>(file_.bytes(), 8);
  const auto values = ReadAt<std::int64_t>(file_.bytes(), 16);
  if (rows < 0 || columns_ < 0 || values < 0) {
    return InvalidArgument(path, ": offset 0: expected numbers of rows, columns and values, found ",
                           rows, ", ", columns_, " and ", values);
  }
  rows_ = static_cast<std::uint64_t>(rows);
  values_ = static_cast<std::uint64_t>(values);
  // The bounds keep the sum from overflowing.
  if (rows_ > size / 8 || values_ > size / 8 ||
      size != kSpmatHeader + 8 * (rows_ + 1) + 8 * values_) {
    return InvalidArgument(path, ": expected 24 + 8 * (rows + 1) + 8 * values bytes for ", rows_,
                           " rows and ", values_, " values, found ", size, " bytes");
  }
  if (rows_ == 0) return InvalidArgument(path, ": expected at least one row, found 0 rows");
  indices_ = kSpmatHeader + 8 * (rows_ + 1);
  if (Pointer(0) != 0) return Wrong(0, "indptr 0 in front of it", absl::StrCat(Pointer(0)));
  return absl::OkStatus();
}

absl::Status SpmatRows::Start(const std::vector<AttributeField>& given) {
  const std::string& path = file_.path();
  HMANN_ASSIGN_OR_RETURN(FieldTable table, FieldTable::Make(path, given));
  HMANN_ASSIGN_OR_RETURN(const std::uint32_t tags, table.Number(0, kSpmatField));
  HMANN_RETURN_IF_ERROR(table.Finish());
  const AttributeType type = given.empty() ? AttributeType::kIntTag : *table.type(tags);
  if (type != AttributeType::kIntTag && type != AttributeType::kTag) {
    return InvalidArgument(path, ": ", kSpmatField,
                           ": expected type int-tag or tag, since a row has several values, found ",
                           AbslView(AttributeTypeName(type)));
  }
  fields_ = {{kSpmatField, type}};
  HMANN_RETURN_IF_ERROR(CheckHeader());
  return ForEach([](auto...) { return absl::OkStatus(); });
}

absl::Status SpmatRows::ReadTags(std::uint64_t row, std::vector<std::int32_t>* tags) const {
  const std::int64_t begin = Pointer(row), end = Pointer(row + 1);
  if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > values_) {
    return Wrong(row, absl::StrCat("indptr from ", begin, " to ", values_, " at its end"),
                 absl::StrCat(end));
  }
  const auto count = static_cast<std::size_t>(end - begin);
  if (count > kMostRowTags)
    return Wrong(row, absl::StrCat("at most ", kMostRowTags, " tags"), absl::StrCat(count));
  tags->resize(count);
  if (count == 0) return absl::OkStatus();
  std::memcpy(tags->data(), file_.bytes().data() + indices_ + 4 * static_cast<std::size_t>(begin),
              4 * count);
  std::sort(tags->begin(), tags->end());
  for (const std::int32_t tag : {tags->front(), tags->back()}) {
    if (tag >= 0 && tag < columns_) continue;
    return Wrong(row, absl::StrCat("indices from 0 to ", columns_ - 1), absl::StrCat(tag));
  }
  const auto twice = std::adjacent_find(tags->begin(), tags->end());
  if (twice == tags->end()) return absl::OkStatus();
  return Wrong(row, "each index once", absl::StrCat(*twice, " twice"));
}

absl::Status SpmatRows::ForEach(const Visit& visit) const {
  std::vector<std::int32_t> tags;
  std::vector<AttributeCell> cells;
  PagesBehind pointers(file_, 0), indices(file_, indices_);
  for (std::uint64_t row = 0; row < rows_; ++row) {
    HMANN_RETURN_IF_ERROR(ReadTags(row, &tags));
    cells.clear();
    for (const std::int32_t tag : tags) {
      if (fields_[0].type == AttributeType::kIntTag) {
        cells.push_back({0, std::int64_t{tag}});
      } else {
        cells.push_back({0, absl::StrCat(tag)});
      }
    }
    if (fields_[0].type == AttributeType::kTag) {
      std::sort(cells.begin(), cells.end(),
                [](const AttributeCell& a, const AttributeCell& b) { return a.value < b.value; });
    }
    HMANN_RETURN_IF_ERROR(visit(row, row, cells));
    pointers.Pass(kSpmatHeader + 8 * row);
    indices.Pass(indices_ + 4 * static_cast<std::uint64_t>(Pointer(row + 1)));
  }
  if (static_cast<std::uint64_t>(Pointer(rows_)) == values_) return absl::OkStatus();
  return Wrong(rows_ - 1, absl::StrCat("indptr ", values_, " at the end of the last row"),
               absl::StrCat(Pointer(rows_)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttributeRows>> OpenSpmatRows(
    const std::string& path, const std::vector<AttributeField>& given) {
  HMANN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto rows = std::make_unique<SpmatRows>(std::move(file));
  HMANN_RETURN_IF_ERROR(rows->Start(given));
  return rows;
}

}  // namespace hmann
