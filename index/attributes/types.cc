#include <array>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "hmann/attributes.h"
#include "index/attributes/field_table.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

struct TypeName {
  AttributeType type;
  std::string_view name;
};
constexpr std::array<TypeName, 6> kTypeNames = {{{AttributeType::kTag, "tag"},
                                                 {AttributeType::kIntTag, "int-tag"},
                                                 {AttributeType::kInt64, "int64"},
                                                 {AttributeType::kFloat64, "float64"},
                                                 {AttributeType::kTime, "time"},
                                                 {AttributeType::kBool, "bool"}}};

absl::StatusOr<AttributeField> ParseFieldType(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return InvalidArgument("expected NAME:TYPE, found ", ShownText(text));
  const std::string_view name = text.substr(0, colon), type = text.substr(colon + 1);
  HMANN_RETURN_IF_ERROR(CheckFieldName(name));
  for (const TypeName& known : kTypeNames)
    if (type == known.name) return AttributeField{std::string(name), known.type};
  const auto append = [](std::string* out, const TypeName& known) { out->append(known.name); };
  return InvalidArgument(ShownBare(name), ": expected one of the types ",
                         absl::StrJoin(kTypeNames, ", ", append), ", found ", ShownText(type));
}

/// Whether `text` has a digit wherever `shape` has 0, a digit below 6 for 5, and the same
/// character elsewhere, whatever the case.
bool HasShape(std::string_view text, std::string_view shape) {
  if (text.size() != shape.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = absl::ascii_toupper(static_cast<unsigned char>(text[i]));
    const bool fits = shape[i] == '0'   ? c >= '0' && c <= '9'
                      : shape[i] == '5' ? c >= '0' && c <= '5'
                                        : c == shape[i];
    if (!fits) return false;
  }
  return true;
}

constexpr std::string_view kDateShape = "0000-00-00";
constexpr std::string_view kTimeShape = "0000-00-00T00:50:50";

/// absl::ParseTime also takes blanks, years of any length, single digits and leap
/// seconds, which are not RFC 3339 or do not exist since 1970 as a count of seconds.
bool HasTimeShape(std::string_view text) {
  if (!HasShape(text.substr(0, kTimeShape.size()), kTimeShape)) return false;
  text.remove_prefix(kTimeShape.size());
  if (text.starts_with('.')) {
    const std::size_t end = text.find_first_not_of("0123456789", 1);
    if (end == 1 || end == std::string_view::npos) return false;
    text.remove_prefix(end);
  }
  return HasShape(text, "Z") || HasShape(text, "+00:50") || HasShape(text, "-00:50");
}

}  // namespace

std::string_view AttributeTypeName(AttributeType type) {
  for (const TypeName& known : kTypeNames)
    if (type == known.type) return known.name;
  return "unknown";
}

absl::StatusOr<std::vector<AttributeField>> ParseAttributeFields(std::string_view text) {
  std::vector<AttributeField> fields;
  std::set<std::string> names;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(AbslView(text), ','))) {
    HMANN_ASSIGN_OR_RETURN(AttributeField field, ParseFieldType(part));
    if (!names.insert(field.name).second)
      return InvalidArgument(ShownBare(field.name), ": expected one type, found two");
    if (fields.size() == kMostFields)
      return InvalidArgument("expected at most ", kMostFields, " fields, found more");
    fields.push_back(std::move(field));
  }
  return fields;
}

absl::StatusOr<std::int64_t> ParseAttributeTime(std::string_view text) {
  absl::Time time;
  std::string error;
  const bool is_date = HasShape(text, kDateShape);
  if ((!is_date && !HasTimeShape(text)) ||
      !absl::ParseTime(is_date ? "%Y-%m-%d" : absl::RFC3339_full, AbslView(text), &time, &error)) {
    return InvalidArgument("expected a time such as 2026-05-01 or 2026-05-01T12:00:00Z, found ",
                           ShownText(text));
  }
  return absl::ToUnixMicros(time);  // years 0 to 9999 fit
}

}  // namespace hmann
