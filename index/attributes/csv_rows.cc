#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/attributes/field_table.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

struct CsvCell {
  std::string text;  ///< without quotes
  bool quoted = false;
};

/// Reads the cells of the record that `text` begins with, which has several lines if a
/// quoted cell has. Returns its bytes, without the end of the last line.
absl::StatusOr<std::size_t> ReadCsvCells(std::string_view text, std::uint64_t line,
                                         const FieldTable& fields, std::vector<CsvCell>* cells) {
  cells->assign(1, {});
  bool in_quotes = false;
  std::size_t at = 0;
  const auto wrong = [&](absl::string_view expected) {
    const auto lines = std::count(text.begin(), text.begin() + at, '\n');
    return fields.Unexpected(line + static_cast<std::uint64_t>(lines), "", expected,
                             ShownText(text.substr(at)));
  };
  for (; at < text.size() && at <= kMostLineBytes; ++at) {
    const char c = text[at];
    CsvCell& cell = cells->back();
    if (c == '"' && (in_quotes || cell.quoted || cell.text.empty())) {
      // The second of two quotes within quotes goes back into them.
      if (!in_quotes && cell.quoted) cell.text += c;
      in_quotes = !in_quotes;
      cell.quoted = true;
    } else if (!in_quotes &&
               (c == '\n' || text.substr(at, 2) == "\r\n" || text.substr(at) == "\r")) {
      break;
    } else if (!in_quotes && c == ',') {
      cells->emplace_back();
    } else if (!in_quotes && (cell.quoted || c == '"')) {
      return wrong(cell.quoted ? "a comma or the end of the line after a quoted cell"
                               : "a quote only at the beginning of a cell, or doubled in one");
    } else {
      cell.text += c;
    }
  }
  const std::string_view record = text.substr(0, at);
  if (at > kMostLineBytes) {
    return fields.Unexpected(line, "", absl::StrCat("at most ", kMostLineBytes, " bytes"),
                             in_quotes ? "a quote without an end" : "a longer line");
  }
  if (in_quotes)
    return fields.Unexpected(line, "", "a quote at the end of a cell", ShownText(record));
  at = Utf8Prefix(record);
  return at < record.size() ? wrong("UTF-8") : absl::StatusOr<std::size_t>(at);
}

/// If the type is not known yet, a number is what JSON has for one: 007 may be a code.
FoundValue CsvValue(std::string_view text, std::optional<AttributeType> type) {
  FoundValue value;
  value.text = text;
  if (type == AttributeType::kTag) return value;
  const bool flag = type == AttributeType::kBool;
  const bool yes = absl::EqualsIgnoreCase(value.text, "true") || (flag && text == "1");
  if (yes || absl::EqualsIgnoreCase(value.text, "false") || (flag && text == "0")) {
    value.kind = FoundValue::kBool;
    value.whole = yes ? 1 : 0;
    return value;
  }
  // Neither 0x10, inf nor a text or list in JSON.
  const bool digits = text.find_first_not_of("0123456789+-.eE ") == text.npos;
  const bool json = digits && text.find(' ') == text.npos && nlohmann::json::accept(text);
  if (!(type.has_value() ? digits : json) || !absl::SimpleAtod(value.text, &value.number) ||
      !std::isfinite(value.number))
    return value;
  value.kind = absl::SimpleAtoi(value.text, &value.whole) ? FoundValue::kWhole
               : text.find_first_of(".eE") == text.npos   ? FoundValue::kHuge
                                                          : FoundValue::kFloat;
  return value;
}

/// Adds what a cell has: a value, or the tags between its '|'.
void AddCsvCell(const CsvCell& cell, std::uint32_t field, std::optional<AttributeType> type,
                FoundRow* row) {
  if (cell.text.empty() && !cell.quoted) return;
  const auto add = [&](FoundValue value) {
    value.field = field;
    row->values.push_back(std::move(value));
  };
  FoundValue value = CsvValue(cell.text, type);
  if (type.has_value() ? !IsTag(*type) : value.kind != FoundValue::kText)
    return add(std::move(value));
  const std::size_t before = row->values.size();
  for (const absl::string_view tag : absl::StrSplit(cell.text, '|', absl::SkipEmpty()))
    add(CsvValue({tag.data(), tag.size()}, type.value_or(AttributeType::kTag)));
  if (row->values.size() == before) add({field, FoundValue::kNoTags, ""});
}

/// The fields of the columns; none for the label.
using CsvColumns = std::vector<std::optional<std::uint32_t>>;

absl::Status ReadCsvHeader(const std::vector<CsvCell>& cells, FieldTable* fields,
                           CsvColumns* columns) {
  for (const CsvCell& cell : cells) {
    std::optional<std::uint32_t> field;
    if (cell.text != kLabelKey) {
      HMANN_ASSIGN_OR_RETURN(field, fields->Number(1, cell.text));
    }
    if (std::find(columns->begin(), columns->end(), field) != columns->end())
      return fields->Unexpected(1, cell.text, "one column", "two");
    columns->push_back(field);
  }
  return absl::OkStatus();
}

absl::Status ReadCsvRow(const std::vector<CsvCell>& cells, const CsvColumns& columns,
                        const FieldTable& fields, FoundRow* row) {
  if (cells.size() != columns.size()) {
    return fields.Unexpected(row->line, "",
                             absl::StrCat(columns.size(), " cells as in the first line"),
                             absl::StrCat(cells.size()));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns[i].has_value())
      AddCsvCell(cells[i], *columns[i], fields.type(*columns[i]), row);
    else if (!absl::SimpleAtoi(cells[i].text, &row->label.emplace()))
      return fields.Unexpected(row->line, kLabelKey, kLabelNumber, ShownText(cells[i].text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadCsvRows(const MappedFile& file, FieldTable* fields, const SeeRow& see) {
  std::string_view rest = TextOf(file);
  std::vector<CsvCell> cells;
  CsvColumns columns;
  PagesBehind pages(file);
  for (std::uint64_t line = 1; !rest.empty(); ++line) {
    FoundRow row{.line = line, .label = {}, .values = {}, .named = {}};
    HMANN_ASSIGN_OR_RETURN(const std::size_t bytes, ReadCsvCells(rest, line, *fields, &cells));
    line += static_cast<std::uint64_t>(std::count(rest.begin(), rest.begin() + bytes, '\n'));
    rest.remove_prefix(std::min(rest.find('\n', bytes), rest.size() - 1) + 1);
    if (columns.empty()) {
      HMANN_RETURN_IF_ERROR(ReadCsvHeader(cells, fields, &columns));
    } else {
      HMANN_RETURN_IF_ERROR(ReadCsvRow(cells, columns, *fields, &row));
      HMANN_RETURN_IF_ERROR(see(&row));
    }
    pages.Pass(file.bytes().size() - rest.size());
  }
  return absl::OkStatus();
}

}  // namespace hmann
