#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/attributes/row_readers.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::string_view kDecimals = "0123456789";

struct CsvCell {
  std::string text;  ///< without quotes
  bool quoted = false;
};

/// The records of a CSV file. A record has several lines if a quoted cell has.
class CsvRecords {
 public:
  explicit CsvRecords(const MappedFile& file) : path_(file.path()), rest_(TextOf(file)) {}

  /// Reads the next record. False: there is none.
  absl::StatusOr<bool> Next();
  std::uint64_t line() const { return line_; }  ///< where the record begins
  std::span<const CsvCell> cells() const { return {cells_.data(), count_}; }
  std::size_t bytes_left() const { return rest_.size(); }

 private:
  /// Both read a cell that begins at `at`, and return where it ends: at a comma, at the
  /// end of a line or of `text`.
  absl::StatusOr<std::size_t> Plain(std::string_view text, std::size_t at, CsvCell* cell) const;
  absl::StatusOr<std::size_t> Quoted(std::string_view text, std::size_t at, CsvCell* cell) const;
  absl::Status Wrong(std::string_view text, std::size_t at, std::string_view expected,
                     std::string_view found) const {
    const auto line =
        line_ + static_cast<std::uint64_t>(std::count(text.begin(), text.begin() + at, '\n'));
    return UnexpectedIn(path_, line, "", expected, found);
  }
  CsvCell* NewCell() {
    if (count_ == cells_.size()) cells_.emplace_back();
    CsvCell* cell = &cells_[count_++];
    cell->text.clear();
    cell->quoted = false;
    return cell;
  }

  const std::string path_;
  std::string_view rest_;
  std::uint64_t line_ = 0, next_line_ = 1;
  std::vector<CsvCell> cells_;  ///< the first count_ are of the record
  std::size_t count_ = 0;
};

absl::StatusOr<std::size_t> CsvRecords::Plain(std::string_view text, std::size_t at,
                                              CsvCell* cell) const {
  const std::size_t end = std::min(text.find_first_of(",\"\n", at), text.size());
  if (end < text.size() && text[end] == '"') {
    return Wrong(text, end, "a quote only at the beginning of a cell, or doubled in a quoted one",
                 ShownText(text.substr(at, end + 1 - at)));
  }
  std::string_view found = text.substr(at, end - at);
  if ((end == text.size() || text[end] == '\n') && found.ends_with('\r')) found.remove_suffix(1);
  cell->text = found;
  return end;
}

absl::StatusOr<std::size_t> CsvRecords::Quoted(std::string_view text, std::size_t at,
                                               CsvCell* cell) const {
  const std::size_t first = at++;
  cell->quoted = true;
  while (true) {
    const std::size_t end = text.find('"', at);
    if (end == text.npos)
      return Wrong(text, first, "a quote at the end of the cell", ShownText(text.substr(first)));
    cell->text.append(text.substr(at, end - at));
    at = end + 1;
    if (at >= text.size() || text[at] != '"') break;
    cell->text.push_back('"');
    ++at;
  }
  if (at < text.size() && text[at] == '\r' && (at + 1 == text.size() || text[at + 1] == '\n')) ++at;
  if (at == text.size() || text[at] == ',' || text[at] == '\n') return at;
  return Wrong(text, at, "a comma or the end of the line after a quoted cell",
               ShownText(text.substr(at, 1)));
}

absl::StatusOr<bool> CsvRecords::Next() {
  count_ = 0;
  if (rest_.empty()) return false;
  line_ = next_line_;
  const std::string_view text = rest_.substr(0, kMostLineBytes + 2);
  const bool cut = text.size() < rest_.size();
  const auto too_long = [&] {
    return Wrong(text, 0, absl::StrCat("at most ", kMostLineBytes, " bytes"), "a longer line");
  };
  std::size_t at = 0;
  while (true) {
    CsvCell* cell = NewCell();
    const bool quoted = at < text.size() && text[at] == '"';
    const absl::StatusOr<std::size_t> end = quoted ? Quoted(text, at, cell) : Plain(text, at, cell);
    if (!end.ok() && cut && quoted && text.find('\n') == text.npos) return too_long();
    HMANN_RETURN_IF_ERROR(end.status());
    at = *end;
    if (at == text.size() || text[at] == '\n') break;
    ++at;
  }
  if (at > kMostLineBytes + (at > 0 && text[at - 1] == '\r' ? 1 : 0)) return too_long();
  const std::string_view record = text.substr(0, at);
  if (const std::size_t valid = Utf8Prefix(record); valid < record.size()) {
    return Wrong(record, valid, "UTF-8",
                 absl::StrFormat("byte 0x%02X", static_cast<unsigned char>(record[valid])));
  }
  next_line_ += 1 + static_cast<std::uint64_t>(std::count(record.begin(), record.end(), '\n'));
  rest_.remove_prefix(std::min(rest_.size(), at + 1));
  return true;
}

/// Whether JSON would take `text` as a number: no plus, no zeros in front.
bool IsJsonNumber(std::string_view text) {
  const auto digits = [&] {
    const std::size_t n = std::min(text.find_first_not_of(kDecimals), text.size());
    text.remove_prefix(n);
    return n;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool zero = text.starts_with('0');
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty();
}

/// A number, or a text if it is none that is finite.
FoundValue NumberOf(std::string_view text) {
  FoundValue value{FoundValue::Kind::kText, 0, 0, std::string(text)};
  if (text.find_first_not_of("0123456789+-.eE ") != text.npos) return value;  // such as 0x10
  if (absl::SimpleAtoi(AbslView(text), &value.whole)) {
    value.kind = FoundValue::Kind::kWhole;
  } else if (absl::SimpleAtod(AbslView(text), &value.number) && std::isfinite(value.number)) {
    const bool whole = text.find_first_of(".eE") == text.npos;
    value.kind = whole ? FoundValue::Kind::kHuge : FoundValue::Kind::kFloat;
  }
  return value;
}

/// A cell of a field whose type is not known yet.
FoundValue GuessOf(std::string_view text) {
  if (IsJsonNumber(text)) return NumberOf(text);
  const bool yes = absl::EqualsIgnoreCase(AbslView(text), "true");
  if (yes || absl::EqualsIgnoreCase(AbslView(text), "false"))
    return {FoundValue::Kind::kBool, yes ? 1 : 0, 0, std::string(text)};
  return {FoundValue::Kind::kText, 0, 0, std::string(text)};
}

FoundValue ValueFor(AttributeType type, std::string_view text) {
  if (type != AttributeType::kBool) return NumberOf(text);
  if (text == "0" || text == "1")
    return {FoundValue::Kind::kBool, text == "1" ? 1 : 0, 0, std::string(text)};
  return GuessOf(text);
}

/// Adds the parts of a cell between its '|'.
void AddParts(std::string_view text, std::uint32_t field, bool whole, FoundRow* row) {
  FoundCell cell{field, FoundCell::Shape::kParts, row->values.size(), 0};
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view part = text.substr(at, text.find('|', at) - at);
    at += part.size() + 1;
    if (part.empty()) continue;
    row->values.push_back(whole ? NumberOf(part)
                                : FoundValue{FoundValue::Kind::kText, 0, 0, std::string(part)});
    ++cell.count;
  }
  row->cells.push_back(cell);
}

void AddCell(const CsvCell& cell, std::uint32_t field, std::optional<AttributeType> type,
             FoundRow* row) {
  if (cell.text.empty() && !cell.quoted) return;
  if (type == AttributeType::kTag || type == AttributeType::kIntTag)
    return AddParts(cell.text, field, type == AttributeType::kIntTag, row);
  FoundValue value = type.has_value() ? ValueFor(*type, cell.text) : GuessOf(cell.text);
  if (!type.has_value() && value.kind == FoundValue::Kind::kText)
    return AddParts(cell.text, field, false, row);
  row->Add(field, std::move(value));
}

/// The fields of the columns; none for the label.
using CsvColumns = std::vector<std::optional<std::uint32_t>>;

absl::StatusOr<CsvColumns> ReadCsvHeader(const CsvRecords& records, FieldTable* fields) {
  CsvColumns columns;
  for (const CsvCell& cell : records.cells()) {
    std::optional<std::uint32_t> field;
    if (cell.text != kLabelKey) {
      HMANN_ASSIGN_OR_RETURN(field, fields->Number(records.line(), cell.text));
    }
    if (std::find(columns.begin(), columns.end(), field) != columns.end())
      return UnexpectedIn(fields->path(), records.line(), cell.text, "one column", "two");
    columns.push_back(field);
  }
  return columns;
}

absl::Status ReadCsvRecord(const CsvRecords& records, const CsvColumns& columns,
                           const FieldTable& fields, FoundRow* row) {
  const std::span<const CsvCell> cells = records.cells();
  row->Clear(records.line());
  if (cells.size() != columns.size()) {
    return UnexpectedIn(fields.path(), row->line, "",
                        absl::StrCat(columns.size(), " cells as in the first line"),
                        absl::StrCat(cells.size()));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns[i].has_value()) {
      AddCell(cells[i], *columns[i], fields.type(*columns[i]), row);
      continue;
    }
    std::uint64_t label = 0;
    if (!absl::SimpleAtoi(cells[i].text, &label)) {
      const bool nothing = cells[i].text.empty() && !cells[i].quoted;
      return UnexpectedIn(fields.path(), row->line, kLabelKey, kLabelNumber,
                          nothing ? "nothing" : ShownText(cells[i].text));
    }
    row->label = label;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadCsvRows(const MappedFile& file, FieldTable* fields, const SeeRow& see) {
  CsvRecords records(file);
  PagesBehind pages(file);
  HMANN_ASSIGN_OR_RETURN(bool found, records.Next());
  if (!found) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const CsvColumns columns, ReadCsvHeader(records, fields));
  FoundRow row;
  while (true) {
    HMANN_ASSIGN_OR_RETURN(found, records.Next());
    if (!found) return absl::OkStatus();
    HMANN_RETURN_IF_ERROR(ReadCsvRecord(records, columns, *fields, &row));
    HMANN_RETURN_IF_ERROR(see(&row));
    pages.Pass(file.bytes().size() - records.bytes_left());
  }
}

}  // namespace hmann
