#include "index/attributes/field_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// The type of a field in which `seen` occurs; none if that does not go together.
std::optional<AttributeType> TypeFor(unsigned seen) {
  using Value = FoundValue;
  constexpr std::pair<unsigned, AttributeType> kTypes[] = {
      {Value::kText | Value::kList | Value::kNoTags | Value::kMoment, AttributeType::kTag},
      {Value::kWhole, AttributeType::kInt64},
      {Value::kWhole | Value::kList, AttributeType::kIntTag},
      {Value::kWhole | Value::kFloat, AttributeType::kFloat64},
      {Value::kBool, AttributeType::kBool}};
  if (seen == Value::kMoment) return AttributeType::kTime;
  for (const auto& [kinds, type] : kTypes)
    if ((seen & ~kinds) == 0) return type;
  return std::nullopt;
}

const char* ExpectedFor(AttributeType type) {
  constexpr const char* kExpected[] = {"nothing",  "a string", kInt64Words,    kInt64Words,
                                       "a number", kTimeWords, "true or false"};
  return kExpected[static_cast<std::size_t>(type)];
}

/// Moves the text out of a tag. None: it is no value of this type.
std::optional<FilterValue> ConvertedTo(AttributeType type, FoundValue* value) {
  const bool is_whole = value->kind == FoundValue::kWhole;
  const double number = value->number;
  switch (type) {
    case AttributeType::kTag:
      return std::move(value->text);
    case AttributeType::kInt64:
      // 3.0 is a whole number; from 2^53 on a double cannot hold every one.
      if (value->kind == FoundValue::kFloat && number == std::floor(number) &&
          std::abs(number) <= 0x1p53)
        return static_cast<std::int64_t>(number);
      [[fallthrough]];
    case AttributeType::kIntTag:
      if (is_whole) return value->whole;
      break;
    case AttributeType::kTime:
      if (is_whole) return value->whole;
      if (value->kind != FoundValue::kText && value->kind != FoundValue::kMoment) break;
      if (const auto time = ParseAttributeTime(value->text); time.ok()) return *time;
      break;
    case AttributeType::kFloat64:
      if (is_whole || value->kind == FoundValue::kHuge || value->kind == FoundValue::kFloat)
        return number;
      break;
    case AttributeType::kBool:
      if (value->kind == FoundValue::kBool) return value->whole != 0;
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string ShownValue(const FoundValue& value) {
  const bool is_text =
      (value.kind & (FoundValue::kText | FoundValue::kNoTags | FoundValue::kMoment)) != 0;
  return is_text ? ShownText(value.text) : ShownBare(value.text);
}

std::string_view TextOf(const MappedFile& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

absl::Status FieldTable::Unexpected(std::uint64_t line, absl::string_view field,
                                    absl::string_view expected, absl::string_view found) const {
  const std::string shown = ShownBare({field.data(), field.size()});
  return InvalidArgument(Place(line), shown, shown.empty() ? "" : ": ", "expected ", expected,
                         ", found ", found);
}

std::string FieldTable::Place(std::uint64_t line) const {
  return unit_.empty() ? absl::StrCat(path_, ": ")
                       : absl::StrCat(path_, ": ", unit_, " ", line, ": ");
}

void FieldTable::TypeByFirst() {
  for (const AttributeField& field : given_) {
    numbers_.emplace(field.name, static_cast<std::uint32_t>(fields_.size()));
    fields_.push_back({field.name, field.type});
  }
  by_first_ = true;
}

absl::StatusOr<std::uint32_t> FieldTable::Number(std::uint64_t line, std::string_view name,
                                                 std::optional<AttributeType> type) {
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  if (const absl::Status named = CheckFieldName(name); !named.ok())
    return InvalidArgument(Place(line), named.message());
  if (fields_.size() == AttrsHeader::kMostFields) {
    return Unexpected(line, AbslView(name),
                      absl::StrCat("at most ", AttrsHeader::kMostFields, " fields"), "one more");
  }
  if (!by_first_) {
    for (const AttributeField& given : given_)
      if (given.name == name) type = given.type;
  }
  const auto number = static_cast<std::uint32_t>(fields_.size());
  fields_.push_back({std::string(name), type});
  numbers_.emplace(name, number);
  return number;
}

absl::Status FieldTable::Learn(std::uint64_t line, const FoundValue& value) {
  Field& field = fields_[value.field];
  const unsigned before = std::exchange(field.seen, field.seen | value.kind);
  if (TypeFor(field.seen).has_value()) return absl::OkStatus();
  const bool huge = value.kind == FoundValue::kHuge;
  return Unexpected(line, field.name,
                    huge ? kInt64Words : absl::StrCat(ExpectedFor(*TypeFor(before)), " as before"),
                    absl::StrCat(ShownValue(value), "; give the field a type, such as --types ",
                                 ShownBare(field.name), huge ? ":float64" : ":tag"));
}

absl::Status FieldTable::Convert(FoundRow* row, std::vector<AttributeCell>* cells) {
  cells->clear();
  std::size_t tags = 0;
  for (std::size_t i = 0; i < row->values.size(); ++i) {
    FoundValue& value = row->values[i];
    Field& field = fields_[value.field];
    if (!field.type.has_value() && value.kind == FoundValue::kText &&
        value.text.find(':') != std::string::npos && ParseAttributeTime(value.text).ok())
      value.kind = FoundValue::kMoment;
    if (by_first_ && !field.type.has_value()) {
      const bool is_list = value.kind == FoundValue::kList;
      const bool has_item = i + 1 < row->values.size() && row->values[i + 1].field == value.field;
      if (is_list && !has_item) continue;
      field.type = TypeFor(is_list ? value.kind | row->values[i + 1].kind : value.kind);
    }
    const std::optional<AttributeType> type = field.type;
    if (!type.has_value()) HMANN_RETURN_IF_ERROR(Learn(row->line, value));
    const bool holds_tags = type.has_value()
                                ? IsTag(*type)
                                : (field.seen & (FoundValue::kText | FoundValue::kList)) != 0;
    const bool is_mark = value.kind == FoundValue::kList || value.kind == FoundValue::kNoTags;
    if (holds_tags && is_mark) continue;
    if (holds_tags && ++tags > kMostRowTags)
      return Unexpected(row->line, "", absl::StrCat("at most ", kMostRowTags, " tags"), "more");
    if (value.text.size() > kMostTagBytes) {
      return Unexpected(row->line, field.name, absl::StrCat("at most ", kMostTagBytes, " bytes"),
                        absl::StrCat(value.text.size()));
    }
    if (!type.has_value()) continue;
    std::optional<FilterValue> converted = ConvertedTo(*type, &value);
    if (!converted.has_value())
      return Unexpected(row->line, field.name, ExpectedFor(*type), ShownValue(value));
    cells->push_back({value.field, *std::move(converted)});
  }
  if (!std::is_sorted(cells->begin(), cells->end())) std::sort(cells->begin(), cells->end());
  cells->erase(std::unique(cells->begin(), cells->end()), cells->end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AttributeField>> FieldTable::Finish() {
  for (const AttributeField& given : given_) {
    if (!numbers_.contains(given.name))
      return InvalidArgument(path_, ": expected a field ", ShownText(given.name), ", found none");
  }
  std::vector<AttributeField> fields;
  for (Field& field : fields_) {
    if (!field.type.has_value()) field.type = TypeFor(field.seen);
    fields.push_back({field.name, *field.type});
  }
  return fields;
}

}  // namespace hmann
