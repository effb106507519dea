/// Reads JSON that others wrote, such as files and settings; writes JSON.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// The text of `json`, on one line unless `indent` is given. Bytes that are not UTF-8, as
/// names of files may have, become U+FFFD.
template <class Json>
std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// `text` with U+FFFD for bytes that are not UTF-8, which protobuf and JSON reject.
inline std::string Utf8(absl::string_view text) {
  return nlohmann::json::parse(JsonText(nlohmann::json(text))).get<std::string>();
}

/// Reads an object key by key. The first key that is wrong is reported in the status that
/// the reader was given, with its name, what was expected and what was found. From then
/// on nothing is read, and values stay as they are. One check of the status is therefore
/// enough, after all reads and before the values are used. `Json`: nlohmann::json or
/// ordered_json.
///
/// A std::optional is left unchanged when its key is missing. Every other key is
/// required.
template <class Json>
class JsonReader {
 public:
  /// `prefix` precedes a key in messages: "FILE: table.", "setting ". `code`: DATA_LOSS
  /// for files of ours, INVALID_ARGUMENT for what a user wrote. `object` and
  /// `*first_error` must outlive the reader.
  JsonReader(const Json& object, std::string prefix, absl::StatusCode code,
             absl::Status* first_error)
      : object_(object), prefix_(std::move(prefix)), code_(code), first_error_(first_error) {
    if (!object.is_object()) Reject(absl::StrCat("expected an object, found ", Show(object)));
  }
  JsonReader(Json&&, std::string, absl::StatusCode, absl::Status*) = delete;

  bool ok() const { return first_error_->ok(); }
  const Json& object() const { return object_; }
  bool Has(const char* key) const { return object_.contains(key); }

  void Text(const char* key, std::string* value) {
    constexpr const char* kExpected = "a text";
    const Json* found = Find(key, kExpected);
    if (found != nullptr && !found->is_string()) return Wrong(key, kExpected, Show(*found));
    if (found != nullptr) *value = found->template get<std::string>();
  }

  /// Reads a number with low <= value <= high.
  template <std::floating_point T>
  void Number(const char* key, std::type_identity_t<T> low, std::type_identity_t<T> high,
              T* value) {
    const std::string expected = absl::StrCat("a number from ", low, " to ", high);
    const Json* found = Find(key, expected);
    if (found == nullptr) return;
    const T number =
        found->is_number() ? found->template get<T>() : std::numeric_limits<T>::quiet_NaN();
    if (!(number >= low && number <= high)) return Wrong(key, expected, Show(*found));
    *value = number;
  }

  /// Reads a whole number exactly; 16.0 is one.
  template <std::integral T>
  void Whole(const char* key, std::type_identity_t<T> low, std::type_identity_t<T> high, T* value) {
    const std::string expected = absl::StrCat("a whole number from ", low, " to ", high);
    const Json* found = Find(key, expected);
    if (found == nullptr) return;
    const std::optional<T> number = WholeIn<T>(*found);
    if (!number.has_value() || *number < low || *number > high)
      return Wrong(key, expected, Show(*found));
    *value = *number;
  }

  void Text(const char* key, std::optional<std::string>* value) {
    std::string text;
    if (Has(key)) Text(key, &text);
    if (Has(key) && ok()) *value = std::move(text);
  }
  template <std::floating_point T>
  void Number(const char* key, std::type_identity_t<T> low, std::type_identity_t<T> high,
              std::optional<T>* value) {
    T number = 0;
    if (Has(key)) Number(key, low, high, &number);
    if (Has(key) && ok()) *value = number;
  }
  template <std::integral T>
  void Whole(const char* key, std::type_identity_t<T> low, std::type_identity_t<T> high,
             std::optional<T>* value) {
    T number = 0;
    if (Has(key)) Whole(key, low, high, &number);
    if (Has(key) && ok()) *value = number;
  }

  /// Calls read(JsonReader&) on the object at `key`.
  template <class Read>
  void Object(const char* key, const Read& read) {
    const Json* found = Find(key, "an object");
    if (found == nullptr) return;
    JsonReader object(*found, absl::StrCat(prefix_, key, "."), code_, first_error_);
    if (ok()) read(object);
  }

  /// Calls read(JsonReader&) on each object of the list at `key`, until one is wrong.
  template <class Read>
  void List(const char* key, std::size_t least, std::size_t most, const Read& read) {
    const Json* found = Find(key, "a list");
    if (found == nullptr) return;
    if (!found->is_array()) return Wrong(key, "a list", Show(*found));
    if (found->size() < least || found->size() > most) {
      return Wrong(key, absl::StrCat(least, " to ", most, " elements"),
                   absl::StrCat(found->size()));
    }
    for (std::size_t i = 0; i < found->size() && ok(); ++i) {
      JsonReader item((*found)[i], absl::StrCat(prefix_, key, "[", i, "]."), code_, first_error_);
      if (ok()) read(item);
    }
  }

  /// For checks that only the caller can make. Reports that a value that was read is
  /// wrong.
  void Wrong(const char* key, absl::string_view expected, absl::string_view found) {
    Report(absl::StrCat(prefix_, key, ": expected ", expected, ", found ", found));
  }
  /// Reports that the object as a whole is wrong.
  void Reject(absl::string_view message) {
    Report(absl::StrCat(prefix_.substr(0, prefix_.find_last_not_of(". ") + 1), ": ", message));
  }

 private:
  static std::string Show(const Json& json) { return JsonText(json).substr(0, 80); }

  template <class T>
  static std::optional<T> WholeIn(const Json& json) {
    const auto fit = [](auto number) {
      return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
    };
    if (json.is_number_unsigned()) return fit(json.template get<std::uint64_t>());
    if (json.is_number_integer()) return fit(json.template get<std::int64_t>());
    const double number = json.is_number_float() ? json.template get<double>() : 0.5;
    if (number != std::floor(number) || std::abs(number) > 0x1p53)
      return std::nullopt;  // above this, a double cannot hold every whole number
    return fit(static_cast<std::int64_t>(number));
  }

  /// nullptr: the key is missing, or an earlier key was wrong.
  const Json* Find(const char* key, absl::string_view expected) {
    if (!ok()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    Wrong(key, expected, "nothing");
    return nullptr;
  }

  void Report(absl::string_view message) { first_error_->Update(absl::Status(code_, message)); }

  const Json& object_;
  const std::string prefix_;
  const absl::StatusCode code_;
  absl::Status* const first_error_;
};

}  // namespace hmann
