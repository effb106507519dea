/// Creates a row of an option table from a member of an engine struct.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "client/python/core/options.h"
#include "index/base/statistics.h"

namespace hmann::python {

template <typename T>
void Assign(const std::string& name, py::handle value, T* to) {
  static_assert(std::is_arithmetic_v<T>);
  if constexpr (std::is_same_v<T, bool>) {
    *to = ToBool(name, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    *to = static_cast<T>(ToNumber(name, value));
  } else {
    // The engine checks its own range.
    constexpr std::int64_t kMost = sizeof(T) < sizeof(std::int64_t)
                                       ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                                       : std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kLeast =
        std::is_signed_v<T> ? static_cast<std::int64_t>(std::numeric_limits<T>::min()) : 0;
    *to = static_cast<T>(ToInteger(name, value, kLeast, kMost));
  }
}
inline void Assign(const std::string& name, py::handle value, std::string* to) {
  *to = ToPath(name, value);
}

/// Parses a word with one of the engine's parsers.
template <typename T>
void AssignWord(const std::string& name, py::handle value,
                absl::StatusOr<T> (*parse)(std::string_view), T* to) {
  *to = Value(parse(ToText(name, value)));
}
inline void Assign(const std::string& name, py::handle value, Metric* to) {
  AssignWord(name, value, ParseMetric, to);
}
inline void Assign(const std::string& name, py::handle value, DType* to) {
  AssignWord(name, value, ParseDType, to);
}
inline void Assign(const std::string& name, py::handle value, CachePolicy* to) {
  AssignWord(name, value, ParseCachePolicy, to);
}
inline void Assign(const std::string& name, py::handle value, BuildMethod* to) {
  AssignWord(name, value, ParseBuildMethod, to);
}
template <typename T>
void Assign(const std::string& name, py::handle value, std::optional<T>* to) {
  Assign(name, value, &to->emplace());
}

template <typename T>
py::object Said(const T& value) {
  if constexpr (std::is_same_v<T, float>) {
    return py::float_(RoundToDecimals(value, 6));  // 1.2, not 1.2000000476837158
  } else if constexpr (std::is_enum_v<T>) {
    return py::str(std::string(Name(value)));
  } else {
    return py::cast(value);
  }
}
inline py::object Said(const std::string& value) {
  return value.empty() ? py::object(py::none()) : py::str(value);
}
template <typename T>
py::object Said(const std::optional<T>& value) {
  return value.has_value() ? Said(*value) : py::none();
}

/// A row for the member that `field` refers to.
template <typename Options, typename Field>
Option<Options> Row(const char* name, const char* help, Field field) {
  return {name, help,
          [field](Options& options, const std::string& name, py::handle value) {
            Assign(name, value, &field(options));
          },
          [field](const Options& options) { return Said(field(options)); }};
}
/// A row for a size in bytes, also accepted as a string such as 256MiB.
template <typename Options, typename Field>
Option<Options> SizeRow(const char* name, const char* help, Field field) {
  return {name, help,
          [field](Options& options, const std::string& name, py::handle value) {
            field(options) = ToSize(name, value);
          },
          [field](const Options& options) -> py::object {
            return field(options) == 0 ? py::none() : Said(field(options));
          }};
}

/// Refers to a member in the form that Row and SizeRow take.
#define HMANN_FIELD(member) [](auto& options) -> auto& { return options.member; }

}  // namespace hmann::python
