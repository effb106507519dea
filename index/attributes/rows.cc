#include "index/attributes/rows.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/attributes/row_readers.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using ReadRows = absl::Status (*)(const MappedFile&, FieldTable*, const SeeRow&);

/// Rows of a text. Each pass reads the whole file.
class TextRows final : public AttributeRows {
 public:
  TextRows(MappedFile file, ReadRows read) : file_(std::move(file)), read_(read) {}

  absl::Status Start(const std::vector<AttributeField>& given) {
    HMANN_ASSIGN_OR_RETURN(table_, FieldTable::Make(file_.path(), given));
    HMANN_RETURN_IF_ERROR(read_(file_, &table_, [&](FoundRow* row) {
      if (rows_++ == 0) has_labels_ = row->label.has_value();
      HMANN_RETURN_IF_ERROR(CheckLabel(*row));
      return table_.Learn(row);
    }));
    if (rows_ == 0) {
      return InvalidArgument(file_.path(), ": expected at least one row, found ",
                             file_.bytes().empty() ? "an empty file" : "0 rows");
    }
    HMANN_RETURN_IF_ERROR(table_.Finish());
    fields_ = table_.Fields();
    return absl::OkStatus();
  }

  absl::Status ForEach(const Visit& visit) const override {
    FieldTable table = table_;
    std::uint64_t n = 0;
    std::vector<AttributeCell> cells;
    HMANN_RETURN_IF_ERROR(read_(file_, &table, [&](FoundRow* row) {
      if (n == rows_) return Changed("more");
      HMANN_RETURN_IF_ERROR(CheckLabel(*row));
      HMANN_RETURN_IF_ERROR(table.Convert(row, &cells));
      const std::uint64_t number = n++;
      return visit(number, row->label.value_or(number), cells);
    }));
    return n == rows_ ? absl::OkStatus() : Changed(absl::StrCat(n));
  }

 private:
  absl::Status CheckLabel(const FoundRow& row) const {
    if (row.label.has_value() == has_labels_) return absl::OkStatus();
    return UnexpectedIn(file_.path(), row.line, kLabelKey,
                        has_labels_ ? kLabelNumber : "no label, as in the first row",
                        has_labels_ ? std::string("nothing") : absl::StrCat(*row.label));
  }
  absl::Status Changed(std::string_view found) const {
    return InvalidArgument(file_.path(), ": expected ", rows_, " rows as before, found ",
                           AbslView(found), ": the file has changed");
  }

  const MappedFile file_;
  const ReadRows read_;
  FieldTable table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttributeRows>> AttributeRows::Open(
    const std::string& path, const std::vector<AttributeField>& given) {
  const std::string suffix = std::filesystem::path(path).extension().string();
  if (suffix == ".spmat") return OpenSpmatRows(path, given);
  const bool csv = suffix == ".csv";
  if (!csv && suffix != ".ndjson" && suffix != ".jsonl") {
    return InvalidArgument(path, ": expected suffix .ndjson, .jsonl, .csv or .spmat, found '",
                           suffix, "'");
  }
  HMANN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto rows = std::make_unique<TextRows>(std::move(file), csv ? ReadCsvRows : ReadNdjsonRows);
  HMANN_RETURN_IF_ERROR(rows->Start(given));
  return rows;
}

}  // namespace hmann
