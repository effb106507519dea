#include "index/attributes/json_rows.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "absl/strings/str_cat.h"
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

JsonRows::JsonRows(FieldTable table, const std::vector<AttributeField>& known)
    : table_(std::move(table)), fields_(known), places_(known.size()) {
  std::iota(places_.begin(), places_.end(), 0u);
}

absl::StatusOr<JsonRows> JsonRows::Of(const std::vector<AttributeField>& known) {
  HMANN_RETURN_IF_ERROR(CheckGivenFields(known));
  FieldTable table("attributes", "", known);
  table.TypeByFirst();
  return JsonRows(std::move(table), known);
}

absl::Status JsonRows::Read(std::string_view object, std::vector<AttributeCell>* cells,
                            std::vector<std::uint32_t>* named) {
  constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  FoundRow found;
  HMANN_RETURN_IF_ERROR(ReadJsonRow(object, &table_, &found));
  if (found.label.has_value())
    return table_.Unexpected(0, kLabelKey, "none among attributes", "one");
  HMANN_RETURN_IF_ERROR(table_.Convert(&found, cells));
  places_.resize(table_.size(), kNowhere);
  for (AttributeCell& cell : *cells) {
    std::uint32_t& place = places_[cell.field];
    if (place == kNowhere) {
      place = static_cast<std::uint32_t>(fields_.size());
      fields_.push_back({table_.name(cell.field), *table_.type(cell.field)});
    }
    cell.field = place;
  }
  if (!std::is_sorted(cells->begin(), cells->end())) std::sort(cells->begin(), cells->end());
  if (named == nullptr) return absl::OkStatus();
  named->clear();
  for (const std::uint32_t field : found.named)
    if (places_[field] != kNowhere) named->push_back(places_[field]);
  std::sort(named->begin(), named->end());
  return absl::OkStatus();
}

std::string JsonOf(std::span<const AttributeField> fields, std::span<const AttributeCell> cells) {
  std::string text = "{";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const AttributeField& field = fields[cells[i].field];
    const bool begins = i == 0 || cells[i - 1].field != cells[i].field;
    const bool ends = i + 1 == cells.size() || cells[i + 1].field != cells[i].field;
    if (i > 0) text += ',';
    if (begins) absl::StrAppend(&text, JsonText(nlohmann::json(field.name)), ":");
    if (begins && IsTag(field.type)) text += '[';
    text += JsonText(JsonOfCell(field.type, cells[i].value));
    if (ends && IsTag(field.type)) text += ']';
  }
  return text + '}';
}

}  // namespace hmann
