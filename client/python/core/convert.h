/// Between Python's objects and the engine's: errors as exceptions, numbers, texts, JSON.
/// All of it needs the GIL.
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

/// The Python exception that hmann.errors has for the code, with the same message.
[[noreturn]] void Raise(const absl::Status& status);
/// hmann.InvalidTypeError, for what is no value of the kind at all.
[[noreturn]] void RaiseType(const std::string& message);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

/// As its repr() says, at most some 60 characters.
std::string Shown(py::handle value);

/// The following name the option in their errors: "k: expected a whole number, found
/// 'ten'".
std::int64_t ToInteger(const std::string& name, py::handle value, std::int64_t least,
                       std::int64_t most);
double ToNumber(const std::string& name, py::handle value);
bool ToBool(const std::string& name, py::handle value);
std::string ToText(const std::string& name, py::handle value);
/// A str, bytes or os.PathLike.
std::string ToPath(const std::string& name, py::handle value);
/// Bytes as a number, or a text as 256MiB.
std::uint64_t ToSize(const std::string& name, py::handle value);
/// Seconds, a datetime.timedelta, or a text as 200us.
std::chrono::nanoseconds ToDuration(const std::string& name, py::handle value);

/// Dicts, lists and numbers.
py::object ToPython(const nlohmann::ordered_json& json);
/// What `hmann info --json` says of the index file `path`.
py::dict InfoOf(const std::string& path, const IndexInfo& info);

}  // namespace hmann::python
