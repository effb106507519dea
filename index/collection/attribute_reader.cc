#include "index/collection/attribute_reader.h"

#include <algorithm>
#include <optional>

#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using nlohmann::json;

bool IsNone(const json& value) { return value.is_null() || (value.is_array() && value.empty()); }

/// As .ndjson files are understood; absent: IsNone, or no value that a field has.
std::optional<AttributeType> TypeOf(const json& value) {
  if (value.is_boolean()) return AttributeType::kBool;
  if (value.is_number_integer()) return AttributeType::kInt64;
  if (value.is_number_float()) return AttributeType::kFloat64;
  if (value.is_string()) return AttributeType::kTag;
  if (!value.is_array() || value.empty()) return std::nullopt;
  return value.front().is_string() ? AttributeType::kTag : AttributeType::kIntTag;
}

}  // namespace

absl::Status AttributeReader::Read(std::string_view object, AttributeCells* cells) {
  if (!rows_.has_value()) {
    HMANN_ASSIGN_OR_RETURN(rows_, JsonRows::Of(fields_));
  }
  const absl::Status status = rows_->Read(object, cells);
  if (status.ok()) return status;
  const json parsed = json::parse(object, nullptr, false);
  if (!parsed.is_object()) return status;
  const std::size_t known = fields_.size();
  json typed = parsed;  // without members that a field cannot get its type by
  for (const auto& [name, value] : parsed.items()) {
    const bool is_known =
        std::any_of(fields_.begin(), fields_.end(),
                    [&name = name](const AttributeField& field) { return field.name == name; });
    if (is_known) continue;
    if (const auto type = TypeOf(value); type.has_value())
      fields_.push_back({name, *type});
    else if (IsNone(value))
      typed.erase(name);
  }
  if (fields_.size() == known && typed.size() == parsed.size()) return status;
  HMANN_ASSIGN_OR_RETURN(rows_, JsonRows::Of(fields_));
  return rows_->Read(typed.size() == parsed.size() ? object : JsonText(typed), cells);
}

absl::StatusOr<std::string> PatchedAttributes(std::string_view object, std::string_view patch) {
  const json members = json::parse(patch, nullptr, false);
  if (!members.is_object())
    return InvalidArgument("expected a JSON object of attributes, found ",
                           std::string(patch.substr(0, 80)));
  json patched = json::parse(object, nullptr, false);
  for (const auto& [name, value] : members.items()) {
    if (value.is_null()) {
      patched.erase(name);
    } else {
      patched[name] = value;
    }
  }
  return JsonText(patched);
}

}  // namespace hmann
