#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/attributes/field_table.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Makes a row from the events of nlohmann's parser, which has no recursion and builds no
/// tree. The library gives the events their names; each returns whether to continue.
class NdjsonEvents {
 public:
  NdjsonEvents(FieldTable* fields, FoundRow* row) : fields_(*fields), row_(*row) {}

  const absl::Status& error() const { return error_; }

  bool null() { return (field_.has_value() && !in_list_) || Refuse("null"); }
  bool boolean(bool value) {
    return Take(FoundValue::kBool, value ? "true" : "false", value ? 1 : 0, 0);
  }
  bool number_integer(std::int64_t value) {
    return Take(FoundValue::kWhole, absl::StrCat(value), value, static_cast<double>(value));
  }
  bool number_unsigned(std::uint64_t value) {
    return Take(std::in_range<std::int64_t>(value) ? FoundValue::kWhole : FoundValue::kHuge,
                absl::StrCat(value), static_cast<std::int64_t>(value), static_cast<double>(value));
  }
  bool number_float(double value, const std::string& text) {
    const bool whole = text.find_first_of(".eE") == text.npos;
    return Take(whole ? FoundValue::kHuge : FoundValue::kFloat, text, 0, value);
  }
  bool string(std::string& text) { return Take(FoundValue::kText, std::move(text), 0, 0); }
  bool binary(const nlohmann::json::binary_t&) { return Refuse("bytes"); }
  bool start_object(std::size_t) {
    return !std::exchange(has_begun_, true) ||
           Refuse(field_.has_value() ? "an object, and objects within one are no attribute values"
                                     : "an object");
  }
  bool end_object() { return true; }
  bool start_array(std::size_t) {
    if (in_list_ || !Take(FoundValue::kList, "a list", 0, 0)) return Refuse("a list");
    in_list_ = true;
    list_seen_ = 0;
    return true;
  }
  bool end_array() {
    in_list_ = false;
    return true;
  }
  bool key(const std::string& name);
  bool parse_error(std::size_t byte, const std::string& token, const nlohmann::json::exception&) {
    error_ = fields_.Unexpected(row_.line, "", absl::StrCat("JSON at byte ", byte, " of the line"),
                                token.empty() ? "nothing" : ShownText(token));
    return false;
  }

 private:
  bool Take(FoundValue::Kind kind, std::string text, std::int64_t whole, double number);
  bool Refuse(absl::string_view found) {
    error_ = fields_.Unexpected(row_.line, field_.has_value() ? fields_.name(*field_) : kLabelKey,
                                !field_.has_value() ? kLabelNumber
                                : in_list_          ? "only strings or only whole numbers in a list"
                                           : "a string, a number, true, false, null or a list",
                                found);
    return false;
  }

  FieldTable& fields_;
  FoundRow& row_;
  std::set<std::string> keys_;
  std::optional<std::uint32_t> field_;  ///< of the last key; none for the label
  bool has_begun_ = false, in_list_ = false;
  unsigned list_seen_ = 0;  ///< kinds of values
  absl::Status error_;
};

bool NdjsonEvents::key(const std::string& name) {
  if (!keys_.insert(name).second) {
    error_ = fields_.Unexpected(row_.line, name, "a key once in an object", "it twice");
    return false;
  }
  field_.reset();
  if (name == kLabelKey) return true;
  const absl::StatusOr<std::uint32_t> number = fields_.Number(row_.line, name);
  error_ = number.status();
  if (!number.ok()) return false;
  field_ = *number;
  row_.named.push_back(*number);
  return true;
}

bool NdjsonEvents::Take(FoundValue::Kind kind, std::string text, std::int64_t whole,
                        double number) {
  FoundValue value{field_.value_or(0), kind, std::move(text), whole, number};
  if (!field_.has_value()) {
    const bool is_label =
        kind != FoundValue::kText && absl::SimpleAtoi(value.text, &row_.label.emplace());
    return is_label || Refuse(ShownValue(value));
  }
  if (in_list_) {
    list_seen_ |= kind;
    const bool wholes = (list_seen_ & ~(FoundValue::kWhole | FoundValue::kHuge)) == 0;
    if (!wholes && list_seen_ != FoundValue::kText) return Refuse(ShownValue(value));
  }
  // With a mark for each list. Bounds memory, which a value takes much more of than text.
  if (row_.values.size() >= kMostRowTags + 2 * AttrsHeader::kMostFields) {
    error_ =
        fields_.Unexpected(row_.line, "", absl::StrCat("at most ", kMostRowTags, " tags"), "more");
    return false;
  }
  row_.values.push_back(std::move(value));
  return true;
}

}  // namespace

absl::Status ReadJsonRow(std::string_view text, FieldTable* fields, FoundRow* row) {
  if (text.size() > kMostLineBytes) {
    return fields->Unexpected(row->line, "", absl::StrCat("at most ", kMostLineBytes, " bytes"),
                              "a longer line");
  }
  const std::string_view object =
      text.substr(std::min(text.find_first_not_of(" \t\r"), text.size()));
  if (!object.starts_with('{')) {
    return fields->Unexpected(row->line, "", "an object",
                              object.empty() ? "a blank line" : ShownText(object));
  }
  NdjsonEvents events(fields, row);
  return nlohmann::json::sax_parse(text.begin(), text.end(), &events) ? absl::OkStatus()
                                                                      : events.error();
}

absl::Status ReadNdjsonRows(const MappedFile& file, FieldTable* fields, const SeeRow& see) {
  std::string_view rest = TextOf(file);
  PagesBehind pages(file);
  FoundRow row;
  while (!rest.empty()) {
    std::string_view text = rest.substr(0, rest.substr(0, kMostLineBytes + 2).find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (text.ends_with('\r')) text.remove_suffix(1);
    row = {.line = row.line + 1, .label = {}, .values = {}, .named = {}};
    HMANN_RETURN_IF_ERROR(ReadJsonRow(text, fields, &row));
    HMANN_RETURN_IF_ERROR(see(&row));
    pages.Pass(file.bytes().size() - rest.size());
  }
  return absl::OkStatus();
}

}  // namespace hmann
