#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/attributes/row_readers.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr char kListItems[] = "strings or whole numbers in a list";
constexpr char kJsonValue[] = "a string, a number, true, false, null or a list";

/// Makes a row from the events of nlohmann's parser, which has no recursion and builds no
/// tree. The library gives the events their names; each returns whether to continue.
class NdjsonEvents {
 public:
  explicit NdjsonEvents(FieldTable* fields) : fields_(*fields) {}

  void Begin(std::uint64_t line) {
    row_.Clear(line);
    has_begun_ = label_seen_ = is_label_ = in_list_ = false;
  }
  FoundRow* row() { return &row_; }
  const absl::Status& error() const { return error_; }

  bool null() {
    if (is_label_) return Refuse(kLabelNumber, "null");
    return !in_list_ || Refuse(kListItems, "null");
  }
  bool boolean(bool value) {
    return Take({FoundValue::Kind::kBool, value ? 1 : 0, 0, std::string()});
  }
  bool number_integer(std::int64_t value) {
    return Take({FoundValue::Kind::kWhole, value, 0, std::string()});
  }
  bool number_unsigned(std::uint64_t value) {
    if (is_label_) {
      row_.label = value;
      return true;
    }
    if (std::in_range<std::int64_t>(value)) return number_integer(static_cast<std::int64_t>(value));
    return Take({FoundValue::Kind::kHuge, 0, static_cast<double>(value), absl::StrCat(value)});
  }
  bool number_float(double value, const std::string& text) {
    const bool whole = text.find_first_of(".eE") == std::string::npos;
    return Take({whole ? FoundValue::Kind::kHuge : FoundValue::Kind::kFloat, 0, value, text});
  }
  bool string(std::string& text) { return Take({FoundValue::Kind::kText, 0, 0, std::move(text)}); }
  bool binary(const nlohmann::json::binary_t&) { return Refuse("JSON", "bytes"); }
  bool start_object(std::size_t) {
    if (!std::exchange(has_begun_, true)) return true;
    return Refuse(is_label_ ? kLabelNumber : in_list_ ? kListItems : kJsonValue, "an object");
  }
  bool end_object() { return true; }
  bool start_array(std::size_t) {
    if (is_label_ || in_list_) return Refuse(is_label_ ? kLabelNumber : kListItems, "a list");
    in_list_ = true;
    row_.cells.push_back({field_, FoundCell::Shape::kList, row_.values.size(), 0});
    return true;
  }
  bool end_array() {
    in_list_ = false;
    return true;
  }
  bool key(const std::string& name);
  bool parse_error(std::size_t byte, const std::string& token, const nlohmann::json::exception& e);

 private:
  bool Take(FoundValue value);
  bool Refuse(std::string_view expected, std::string_view found) {
    error_ = UnexpectedIn(fields_.path(), row_.line, is_label_ ? kLabelKey : fields_.name(field_),
                          expected, found);
    return false;
  }

  FieldTable& fields_;
  FoundRow row_;
  std::vector<std::uint64_t> last_line_;  ///< of each field, where it occurred last
  std::uint32_t field_ = 0;               ///< of the last key
  bool has_begun_ = false, label_seen_ = false;
  bool is_label_ = false;  ///< the last key
  bool in_list_ = false;
  absl::Status error_;
};

bool NdjsonEvents::key(const std::string& name) {
  is_label_ = name == kLabelKey;
  bool twice = label_seen_;
  if (is_label_) {
    label_seen_ = true;
  } else {
    const absl::StatusOr<std::uint32_t> number = fields_.Number(row_.line, name);
    if (!number.ok()) {
      error_ = number.status();
      return false;
    }
    field_ = *number;
    last_line_.resize(fields_.size());
    twice = std::exchange(last_line_[field_], row_.line) == row_.line;
  }
  return !twice || Refuse("a key once in an object", "it twice");
}

bool NdjsonEvents::Take(FoundValue value) {
  using Kind = FoundValue::Kind;
  if (is_label_) return Refuse(kLabelNumber, ShownValue(value));
  if (!in_list_) {
    row_.Add(field_, std::move(value));
    return true;
  }
  if (value.kind == Kind::kBool || value.kind == Kind::kFloat)
    return Refuse(kListItems, ShownValue(value));
  FoundCell& list = row_.cells.back();
  if (list.count > 0) {
    const bool texts = row_.values[list.first].kind == Kind::kText;
    if (texts != (value.kind == Kind::kText)) {
      return Refuse(texts ? "only strings in a list that begins with one"
                          : "only whole numbers in a list that begins with one",
                    ShownValue(value));
    }
  }
  ++list.count;
  row_.values.push_back(std::move(value));
  return true;
}

bool NdjsonEvents::parse_error(std::size_t byte, const std::string& token,
                               const nlohmann::json::exception& e) {
  // "... while parsing value - invalid literal; last read: '{"a": x'": the middle counts.
  std::string_view why = e.what();
  if (const std::size_t dash = why.find(" - "); dash != why.npos) why.remove_prefix(dash + 3);
  if (const std::size_t id = why.find("] "); id != why.npos) why.remove_prefix(id + 2);
  why = why.substr(0, std::min(why.find("; last read"), why.find(" parsing '")));
  error_ = UnexpectedIn(fields_.path(), row_.line, "",
                        absl::StrCat("JSON at byte ", byte, " of the line"),
                        absl::StrCat(token.empty() ? "nothing" : ShownText(token), " (",
                                     Utf8(AbslView(why.substr(0, 80))), ")"));
  return false;
}

absl::Status ReadNdjsonLine(std::string_view text, std::uint64_t line, NdjsonEvents* events,
                            const std::string& path) {
  if (text.size() > kMostLineBytes) {
    return UnexpectedIn(path, line, "", absl::StrCat("at most ", kMostLineBytes, " bytes"),
                        "a longer line");
  }
  const std::string_view object =
      text.substr(std::min(text.find_first_not_of(" \t\r"), text.size()));
  if (object.empty()) return UnexpectedIn(path, line, "", "an object", "a blank line");
  if (object.front() != '{') return UnexpectedIn(path, line, "", "an object", ShownText(object));
  events->Begin(line);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), events)) return absl::OkStatus();
  return events->error();
}

}  // namespace

absl::Status ReadNdjsonRows(const MappedFile& file, FieldTable* fields, const SeeRow& see) {
  std::string_view rest = TextOf(file);
  NdjsonEvents events(fields);
  PagesBehind pages(file);
  for (std::uint64_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.substr(0, kMostLineBytes + 2).find('\n');
    std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (text.ends_with('\r')) text.remove_suffix(1);
    HMANN_RETURN_IF_ERROR(ReadNdjsonLine(text, line, &events, file.path()));
    HMANN_RETURN_IF_ERROR(see(events.row()));
    pages.Pass(file.bytes().size() - rest.size());
  }
  return absl::OkStatus();
}

}  // namespace hmann
