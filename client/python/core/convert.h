/// Converts between Python objects and engine types: errors to exceptions, numbers,
/// strings, JSON. All functions need the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/info.h"
#include "nlohmann/json.hpp"

namespace hmann::python {

namespace py = pybind11;

/// Raises the exception that hmann.errors has for the code, with the same message.
[[noreturn]] void Raise(const absl::Status& status);
/// Raises hmann.InvalidTypeError, for a value of an entirely wrong kind.
[[noreturn]] void RaiseType(const std::string& message);
/// Raises what the function `maker` of hmann.errors returns for these arguments.
[[noreturn]] void RaiseAs(const char* maker, const py::tuple& arguments);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

/// The repr() of a value, cut to about 60 characters.
std::string Shown(py::handle value);

/// The following functions name the option in their errors:
/// "k: expected a whole number, found 'ten'".
std::int64_t ToInteger(const std::string& name, py::handle value, std::int64_t least,
                       std::int64_t most);
double ToNumber(const std::string& name, py::handle value);
bool ToBool(const std::string& name, py::handle value);
std::string ToText(const std::string& name, py::handle value);
/// Accepts str, bytes or os.PathLike.
std::string ToPath(const std::string& name, py::handle value);
/// Accepts a number of bytes, or a string such as 256MiB.
std::uint64_t ToSize(const std::string& name, py::handle value);
/// Accepts seconds, a datetime.timedelta, or a string such as 200us.
std::chrono::nanoseconds ToDuration(const std::string& name, py::handle value);

/// Converts JSON to dicts, lists and numbers.
py::object ToPython(const nlohmann::ordered_json& json);
/// The output of `hmann info --json` for the index file `path`.
py::dict InfoOf(const std::string& path, const IndexInfo& info);

}  // namespace hmann::python
