#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "hmann/attributes.h"
#include "index/attributes/field_table.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// By the number of the type.
constexpr std::string_view kTypeNames[] = {"unknown", "tag",  "int-tag", "int64",
                                           "float64", "time", "bool"};

absl::StatusOr<AttributeField> ParseFieldType(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return InvalidArgument("expected NAME:TYPE, found ", ShownText(text));
  const std::string_view name = text.substr(0, colon), type = text.substr(colon + 1);
  for (std::uint32_t i = 1; i < std::size(kTypeNames); ++i)
    if (type == kTypeNames[i]) return AttributeField{std::string(name), AttributeType{i}};
  return InvalidArgument(ShownBare(name), ": expected one of the types ", "tag, int-tag, int64, ",
                         "float64, time, bool, found ", ShownText(type));
}

/// absl::ParseTime also takes blanks, years of any length, single digits and leap
/// seconds, which are not RFC 3339 or do not exist since 1970 as a count of seconds.
bool IsTimeShaped(std::string_view text) {
  constexpr std::string_view kDate = "0000-00-00", kTime = "0000-00-00T00:00:00";
  std::string shape = absl::AsciiStrToUpper(AbslView(text));
  for (char& c : shape) c = absl::ascii_isdigit(static_cast<unsigned char>(c)) ? '0' : c;
  if (shape == kDate) return true;
  if (!shape.starts_with(kTime) || text[kTime.size() - 2] > '5') return false;
  std::string_view rest = std::string_view(shape).substr(kTime.size());
  if (rest.starts_with(".0"))
    rest.remove_prefix(std::min(rest.find_first_not_of('0', 1), rest.size()));
  return rest == "Z" || rest == "+00:00" || rest == "-00:00";
}

}  // namespace

std::string_view AttributeTypeName(AttributeType type) {
  const auto number = static_cast<std::size_t>(type);
  return kTypeNames[number < std::size(kTypeNames) ? number : 0];
}

absl::Status CheckGivenFields(const std::vector<AttributeField>& fields) {
  std::set<std::string_view> names;
  for (const AttributeField& field : fields) {
    HMANN_RETURN_IF_ERROR(CheckFieldName(field.name));
    if (field.name == kLabelKey)
      return InvalidArgument("label: expected no type, since it is the label of a row, found one");
    if (!names.insert(field.name).second)
      return InvalidArgument(ShownBare(field.name), ": expected one type, found two");
  }
  if (fields.size() <= AttrsHeader::kMostFields) return absl::OkStatus();
  return InvalidArgument("expected at most ", AttrsHeader::kMostFields, " fields, found ",
                         fields.size());
}

absl::StatusOr<std::vector<AttributeField>> ParseAttributeFields(std::string_view text) {
  std::vector<AttributeField> fields;
  for (const absl::string_view part : absl::StrSplit(AbslView(text), ',')) {
    HMANN_ASSIGN_OR_RETURN(fields.emplace_back(), ParseFieldType({part.data(), part.size()}));
  }
  HMANN_RETURN_IF_ERROR(CheckGivenFields(fields));
  return fields;
}

absl::StatusOr<std::int64_t> ParseAttributeTime(std::string_view text) {
  absl::Time time;
  std::string error;
  const char* format = text.find(':') == text.npos ? "%Y-%m-%d" : absl::RFC3339_full;
  if (!IsTimeShaped(text) || !absl::ParseTime(format, AbslView(text), &time, &error))
    return InvalidArgument("expected ", kTimeWords, ", found ", ShownText(text));
  return absl::ToUnixMicros(time);  // years 0 to 9999 fit
}

}  // namespace hmann
