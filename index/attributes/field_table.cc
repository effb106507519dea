#include "index/attributes/field_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::size_t kMostValueBytesShown = 40;
constexpr std::size_t kMostFieldsShown = 20;
constexpr char kWholeInt64[] = "a whole number from -2^63 to 2^63 - 1";

/// What occurs in a field, as bits.
constexpr unsigned kSawBool = 1;
constexpr unsigned kSawWhole = 2;
constexpr unsigned kSawFloat = 4;
constexpr unsigned kSawText = 8;
constexpr unsigned kSawList = 16;

unsigned SeenIn(const FoundRow& row, const FoundCell& cell) {
  if (cell.shape == FoundCell::Shape::kParts) return kSawText;
  const unsigned list = cell.shape == FoundCell::Shape::kList ? kSawList : 0;
  if (cell.count == 0) return list;
  switch (row.values[cell.first].kind) {
    case FoundValue::Kind::kBool:
      return list | kSawBool;
    case FoundValue::Kind::kWhole:
    case FoundValue::Kind::kHuge:
      return list | kSawWhole;
    case FoundValue::Kind::kFloat:
      return list | kSawFloat;
    case FoundValue::Kind::kText:
      break;
  }
  return list | kSawText;
}

/// The type of a field in which `seen` occurs; none if that does not go together.
std::optional<AttributeType> TypeFor(unsigned seen) {
  switch (seen) {
    case 0:
    case kSawText:
    case kSawList:
    case kSawList | kSawText:
      return AttributeType::kTag;
    case kSawList | kSawWhole:
      return AttributeType::kIntTag;
    case kSawWhole:
      return AttributeType::kInt64;
    case kSawFloat:
    case kSawWhole | kSawFloat:
      return AttributeType::kFloat64;
    case kSawBool:
      return AttributeType::kBool;
    default:
      return std::nullopt;
  }
}

std::string_view ExpectedFor(AttributeType type) {
  switch (type) {
    case AttributeType::kTag:
      return "a string";
    case AttributeType::kIntTag:
    case AttributeType::kInt64:
      return kWholeNumber;
    case AttributeType::kFloat64:
      return "a number";
    case AttributeType::kTime:
      return "a time";
    case AttributeType::kBool:
      return "true or false";
  }
  return "nothing";
}

bool HoldsTags(AttributeType type) {
  return type == AttributeType::kTag || type == AttributeType::kIntTag;
}

/// As text, which numbers keep as they were written.
std::string TextOfValue(const FoundValue& value) {
  if (value.kind == FoundValue::Kind::kBool) return value.whole != 0 ? "true" : "false";
  if (value.kind == FoundValue::Kind::kWhole && value.text.empty())
    return absl::StrCat(value.whole);
  return value.text;
}

std::string ShownCell(const FoundRow& row, const FoundCell& cell) {
  if (cell.shape == FoundCell::Shape::kList) return "a list";
  return cell.count == 0 ? "\"\"" : ShownValue(row.values[cell.first]);
}

/// 3.0 is a whole number; from 2^53 on a double cannot hold every one.
std::optional<std::int64_t> WholeOf(const FoundValue& value) {
  if (value.kind == FoundValue::Kind::kWhole) return value.whole;
  if (value.kind != FoundValue::Kind::kFloat || value.number != std::floor(value.number) ||
      std::abs(value.number) > 0x1p53)
    return std::nullopt;
  return static_cast<std::int64_t>(value.number);
}

}  // namespace

std::size_t Utf8Prefix(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t at = 0;
  while (at < text.size()) {
    const unsigned lead = byte(at);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const std::size_t bytes = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (bytes == 0 || lead > 0xF4 || text.size() - at < bytes) return at;
    // Longer than needed, halves of UTF-16 pairs, above U+10FFFF: the second byte shows.
    const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(at + 1) < least || byte(at + 1) > most) return at;
    for (std::size_t i = 2; i < bytes; ++i)
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    at += bytes;
  }
  return at;
}

std::string ShownText(std::string_view text) {
  if (text.size() <= kMostValueBytesShown) return JsonText(nlohmann::json(text));
  std::string_view start = text.substr(0, kMostValueBytesShown);
  // A character that the cut splits is left out; what is not UTF-8 anyway is replaced.
  const std::size_t valid = Utf8Prefix(start);
  if (kMostValueBytesShown - valid < 4 && Utf8Prefix(text.substr(valid, 4)) > 0)
    start = start.substr(0, valid);
  return absl::StrCat(JsonText(nlohmann::json(start)), "...");
}

std::string ShownBare(std::string_view text) {
  std::string shown = ShownText(text);
  shown.erase(shown.rfind('"'), 1);
  return shown.substr(1);
}

std::string ShownValue(const FoundValue& value) {
  return value.kind == FoundValue::Kind::kText ? ShownText(value.text)
                                               : ShownBare(TextOfValue(value));
}

absl::Status UnexpectedIn(const std::string& path, std::uint64_t line, std::string_view field,
                          std::string_view expected, std::string_view found) {
  return InvalidArgument(path, ": line ", line, ": ", field.empty() ? "" : ShownBare(field),
                         field.empty() ? "" : ": ", "expected ", AbslView(expected), ", found ",
                         AbslView(found));
}

absl::Status CheckFieldName(std::string_view name) {
  if (!name.empty() && name.size() <= kMostFieldNameBytes && Utf8Prefix(name) == name.size())
    return absl::OkStatus();
  return InvalidArgument(
      "expected a name of 1 to ", kMostFieldNameBytes, " bytes of UTF-8 for a field, found ",
      ShownText(name),
      name.size() > kMostFieldNameBytes ? absl::StrCat(" (", name.size(), " bytes)") : "");
}

absl::StatusOr<FieldTable> FieldTable::Make(std::string path,
                                            const std::vector<AttributeField>& given) {
  FieldTable table;
  table.path_ = std::move(path);
  for (const AttributeField& field : given) {
    if (const absl::Status named = CheckFieldName(field.name); !named.ok())
      return InvalidArgument(table.path_, ": ", named.message());
    if (field.name == kLabelKey) {
      return InvalidArgument(table.path_,
                             ": label: expected no type, since it is the label of a row, found ",
                             AbslView(AttributeTypeName(field.type)));
    }
    if (!table.given_.emplace(field.name, field.type).second) {
      return InvalidArgument(table.path_, ": ", ShownBare(field.name),
                             ": expected one type, found two");
    }
  }
  return table;
}

std::optional<AttributeType> FieldTable::type(std::uint32_t field) const {
  return fields_[field].type;
}

absl::StatusOr<std::uint32_t> FieldTable::Number(std::uint64_t line, std::string_view name) {
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  if (finished_) {
    return UnexpectedIn(path_, line, name, "a field that the file had when it was opened",
                        "a new one: the file has changed");
  }
  if (const absl::Status named = CheckFieldName(name); !named.ok())
    return InvalidArgument(path_, ": line ", line, ": ", named.message());
  if (fields_.size() == kMostFields) {
    return UnexpectedIn(path_, line, name, absl::StrCat("at most ", kMostFields, " fields"),
                        "one more");
  }
  const auto given = given_.find(name);
  const auto number = static_cast<std::uint32_t>(fields_.size());
  fields_.push_back(
      {std::string(name), given == given_.end() ? std::nullopt : std::optional(given->second), 0});
  numbers_.emplace(name, number);
  return number;
}

absl::Status FieldTable::CheckSizes(const FoundRow& row) const {
  std::size_t tags = 0;
  for (const FoundCell& cell : row.cells) {
    const Field& field = fields_[cell.field];
    const unsigned seen = SeenIn(row, cell);
    const bool may_be = (seen & (kSawText | kSawList)) != 0 || (field.seen & kSawList) != 0;
    if (field.type.has_value() ? HoldsTags(*field.type) : may_be) tags += cell.count;
    for (std::size_t i = cell.first; i < cell.first + cell.count; ++i) {
      if (row.values[i].text.size() <= kMostTagBytes) continue;
      return UnexpectedIn(path_, row.line, field.name,
                          absl::StrCat("at most ", kMostTagBytes, " bytes"),
                          absl::StrCat(row.values[i].text.size()));
    }
  }
  if (tags > kMostRowTags) {
    return UnexpectedIn(path_, row.line, "", absl::StrCat("at most ", kMostRowTags, " tags"),
                        absl::StrCat(tags));
  }
  return absl::OkStatus();
}

absl::Status FieldTable::Infer(const FoundRow& row, const FoundCell& cell) {
  Field& field = fields_[cell.field];
  if (field.type.has_value()) return absl::OkStatus();
  const unsigned before = field.seen;
  field.seen |= SeenIn(row, cell);
  for (std::size_t i = cell.first; i < cell.first + cell.count; ++i) {
    if (row.values[i].kind != FoundValue::Kind::kHuge) continue;
    return UnexpectedIn(
        path_, row.line, field.name, kWholeInt64,
        absl::StrCat(ShownValue(row.values[i]), "; give the field a type, such as --types ",
                     ShownBare(field.name), ":float64"));
  }
  if (TypeFor(field.seen).has_value()) return absl::OkStatus();
  return UnexpectedIn(
      path_, row.line, field.name,
      absl::StrCat(AbslView(ExpectedFor(*TypeFor(before))), " as before"),
      absl::StrCat(ShownCell(row, cell), "; give the field a type, such as --types ",
                   ShownBare(field.name), ":tag"));
}

absl::Status FieldTable::Learn(FoundRow* row) {
  for (const FoundCell& cell : row->cells) HMANN_RETURN_IF_ERROR(Infer(*row, cell));
  return Convert(row, &scratch_);
}

absl::Status FieldTable::Finish() {
  for (Field& field : fields_)
    if (!field.type.has_value()) field.type = TypeFor(field.seen);
  finished_ = true;
  for (const auto& [name, type] : given_) {
    if (numbers_.contains(name)) continue;
    std::string found;
    for (std::size_t i = 0; i < std::min(fields_.size(), kMostFieldsShown); ++i)
      absl::StrAppend(&found, i == 0 ? " only " : ", ", ShownBare(fields_[i].name));
    return InvalidArgument(path_, ": expected a field ", ShownText(name), ", found",
                           fields_.empty() ? " no fields" : found,
                           fields_.size() > kMostFieldsShown ? ", ..." : "");
  }
  return absl::OkStatus();
}

std::vector<AttributeField> FieldTable::Fields() const {
  std::vector<AttributeField> fields;
  for (const Field& field : fields_)
    fields.push_back({field.name, field.type.value_or(AttributeType::kTag)});
  return fields;
}

absl::Status FieldTable::Convert(FoundRow* row, std::vector<AttributeCell>* cells) const {
  cells->clear();
  HMANN_RETURN_IF_ERROR(CheckSizes(*row));
  const auto by_field = [](const FoundCell& a, const FoundCell& b) { return a.field < b.field; };
  if (!std::is_sorted(row->cells.begin(), row->cells.end(), by_field))
    std::sort(row->cells.begin(), row->cells.end(), by_field);
  for (const FoundCell& cell : row->cells) {
    const std::optional<AttributeType> type = fields_[cell.field].type;
    if (!type.has_value()) continue;
    HMANN_RETURN_IF_ERROR(HoldsTags(*type) ? ConvertTags(row, cell, cells)
                                           : ConvertOne(*row, cell, cells));
  }
  return absl::OkStatus();
}

absl::Status FieldTable::ConvertOne(const FoundRow& row, const FoundCell& cell,
                                    std::vector<AttributeCell>* cells) const {
  using Kind = FoundValue::Kind;
  const Field& field = fields_[cell.field];
  const auto wrong = [&](std::string_view expected) {
    return UnexpectedIn(path_, row.line, field.name, expected, ShownCell(row, cell));
  };
  if (cell.shape != FoundCell::Shape::kOne) return wrong(ExpectedFor(*field.type));
  const FoundValue& value = row.values[cell.first];
  const auto add = [&](FilterValue converted) {
    cells->push_back({cell.field, std::move(converted)});
    return absl::OkStatus();
  };
  const bool is_time = *field.type == AttributeType::kTime;
  if (is_time || *field.type == AttributeType::kInt64) {
    if (value.kind == Kind::kHuge) return wrong(kWholeInt64);
    if (value.kind == Kind::kWhole) return add(value.whole);
    if (is_time && value.kind == Kind::kText) {
      const absl::StatusOr<std::int64_t> time = ParseAttributeTime(value.text);
      if (time.ok()) return add(*time);
      return InvalidArgument(path_, ": line ", row.line, ": ", ShownBare(field.name), ": ",
                             time.status().message());
    }
    const std::optional<std::int64_t> whole = is_time ? std::nullopt : WholeOf(value);
    return whole.has_value() ? add(*whole) : wrong(ExpectedFor(*field.type));
  }
  if (*field.type == AttributeType::kBool && value.kind == Kind::kBool)
    return add(value.whole != 0);
  if (*field.type == AttributeType::kFloat64) {
    if (value.kind == Kind::kWhole) return add(static_cast<double>(value.whole));
    if (value.kind == Kind::kHuge || value.kind == Kind::kFloat) return add(value.number);
  }
  return wrong(ExpectedFor(*field.type));
}

absl::Status FieldTable::ConvertTags(FoundRow* row, const FoundCell& cell,
                                     std::vector<AttributeCell>* cells) const {
  const Field& field = fields_[cell.field];
  const bool whole = *field.type == AttributeType::kIntTag;
  const auto first = static_cast<std::ptrdiff_t>(cells->size());
  for (std::size_t i = cell.first; i < cell.first + cell.count; ++i) {
    FoundValue& value = row->values[i];
    if (whole && value.kind != FoundValue::Kind::kWhole) {
      const bool huge = value.kind == FoundValue::Kind::kHuge;
      return UnexpectedIn(path_, row->line, field.name, huge ? kWholeInt64 : kWholeNumber,
                          ShownValue(value));
    }
    AttributeCell& tag = cells->emplace_back();
    tag.field = cell.field;
    if (whole) {
      tag.value = value.whole;
    } else {
      tag.value =
          value.kind == FoundValue::Kind::kText ? std::move(value.text) : TextOfValue(value);
    }
  }
  const auto less = [](const AttributeCell& a, const AttributeCell& b) {
    return a.value < b.value;
  };
  const auto same = [](const AttributeCell& a, const AttributeCell& b) {
    return a.value == b.value;
  };
  const auto begin = cells->begin() + first;
  if (!std::is_sorted(begin, cells->end(), less)) std::sort(begin, cells->end(), less);
  cells->erase(std::unique(begin, cells->end(), same), cells->end());
  return absl::OkStatus();
}

}  // namespace hmann
