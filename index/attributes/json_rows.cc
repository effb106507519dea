#include "index/attributes/json_rows.h"

#include <variant>

#include "absl/time/time.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

nlohmann::ordered_json JsonOfCell(AttributeType type, const FilterValue& value) {
  if (type == AttributeType::kTime) {
    const auto micros = std::get<std::int64_t>(value);
    const std::string text =
        absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", absl::FromUnixMicros(micros), absl::UTCTimeZone());
    // RFC 3339 has no years beyond four digits.
    if (const auto back = ParseAttributeTime(text); back.ok() && *back == micros) return text;
  }
  return std::visit([](const auto& of_type) { return nlohmann::ordered_json(of_type); }, value);
}

}  // namespace

absl::StatusOr<JsonRows> JsonRows::Of(const std::vector<AttributeField>& fields) {
  HMANN_RETURN_IF_ERROR(CheckGivenFields(fields));
  FieldTable table("attributes", "", fields);
  table.Close();
  return JsonRows(std::move(table));
}

absl::Status JsonRows::Read(std::string_view object, std::vector<AttributeCell>* cells) {
  FoundRow found;
  HMANN_RETURN_IF_ERROR(ReadJsonRow(object, &table_, &found));
  if (found.label.has_value())
    return table_.Unexpected(0, kLabelKey, "none among attributes", "one");
  return table_.Convert(&found, cells);
}

std::string JsonOf(std::span<const AttributeField> fields, std::span<const AttributeCell> cells) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const AttributeCell& cell : cells) {
    const AttributeField& field = fields[cell.field];
    const nlohmann::ordered_json value = JsonOfCell(field.type, cell.value);
    if (IsTag(field.type))
      object[field.name].push_back(value);
    else
      object[field.name] = value;
  }
  return JsonText(object);
}

}  // namespace hmann
