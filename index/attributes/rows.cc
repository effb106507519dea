#include "index/attributes/rows.h"

#include <filesystem>
#include <utility>

#include "index/attributes/field_table.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

struct RowFormat {
  const char* suffix;
  const char* unit;  ///< of messages
  absl::Status (*read)(const MappedFile&, FieldTable*, const SeeRow&);
};
constexpr RowFormat kRowFormats[] = {{".ndjson", "line", ReadNdjsonRows},
                                     {".jsonl", "line", ReadNdjsonRows},
                                     {".csv", "line", ReadCsvRows},
                                     {".spmat", "row", ReadSpmatRows}};

/// Rows of a file. Each pass reads the whole file.
class FileRows final : public AttributeRows {
 public:
  FileRows(MappedFile file, const RowFormat& format, const std::vector<AttributeField>& given)
      : file_(std::move(file)), format_(format), table_(file_.path(), format.unit, given) {}

  absl::Status Start() {
    std::vector<AttributeCell> cells;
    HMANN_RETURN_IF_ERROR(format_.read(file_, &table_, [&](FoundRow* row) {
      if (rows_++ == 0) has_labels_ = row->label.has_value();
      return Convert(row, &table_, &cells);
    }));
    if (rows_ == 0) {
      return InvalidArgument(file_.path(), ": expected at least one row, found ",
                             file_.bytes().empty() ? "an empty file" : "0 rows");
    }
    HMANN_ASSIGN_OR_RETURN(fields_, table_.Finish());
    return absl::OkStatus();
  }

  absl::Status ForEach(const Visit& visit) const override {
    const absl::Status changed = InvalidArgument(file_.path(), ": expected the ", rows_,
                                                 " rows of before, found others: the file changed");
    FieldTable table = table_;
    std::uint64_t n = 0;
    std::vector<AttributeCell> cells;
    HMANN_RETURN_IF_ERROR(format_.read(file_, &table, [&](FoundRow* row) {
      if (n == rows_) return changed;
      HMANN_RETURN_IF_ERROR(Convert(row, &table, &cells));
      const std::uint64_t number = n++;
      return visit(number, row->label.value_or(number), cells);
    }));
    return n == rows_ && table.size() == fields_.size() ? absl::OkStatus() : changed;
  }

 private:
  absl::Status Convert(FoundRow* row, FieldTable* table, std::vector<AttributeCell>* cells) const {
    if (row->label.has_value() == has_labels_) return table->Convert(row, cells);
    return table->Unexpected(row->line, kLabelKey, "one in every row or in none",
                             has_labels_ ? "nothing" : "one");
  }

  const MappedFile file_;
  const RowFormat& format_;
  FieldTable table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttributeRows>> AttributeRows::Open(
    const std::string& path, const std::vector<AttributeField>& given) {
  if (const absl::Status checked = CheckGivenFields(given); !checked.ok())
    return InvalidArgument(path, ": ", checked.message());
  const std::string suffix = std::filesystem::path(path).extension().string();
  for (const RowFormat& format : kRowFormats) {
    if (suffix != format.suffix) continue;
    HMANN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    auto rows = std::make_unique<FileRows>(std::move(file), format, given);
    HMANN_RETURN_IF_ERROR(rows->Start());
    return rows;
  }
  return InvalidArgument(path, ": expected suffix .ndjson, .jsonl, .csv or .spmat, found '", suffix,
                         "'");
}

}  // namespace hmann
