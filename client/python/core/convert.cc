#include "client/python/core/convert.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/units.h"
#include "index/report/report.h"

namespace hmann::python {
namespace {

/// A message may contain a path with bytes that are not UTF-8.
py::object Decoded(absl::string_view text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

[[noreturn]] void RaiseKind(const std::string& name, const char* expected, py::handle value) {
  RaiseType(absl::StrCat(name, ": expected ", expected, ", found ", Shown(value)));
}

}  // namespace

void RaiseAs(const char* maker, const py::tuple& arguments) {
  const py::object error = py::module_::import("hmann.errors").attr(maker)(*arguments);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

void Raise(const absl::Status& status) {
  RaiseAs("from_status",
          py::make_tuple(absl::StatusCodeToString(status.code()), Decoded(status.message())));
}

void RaiseType(const std::string& message) {
  RaiseAs("InvalidTypeError", py::make_tuple(Decoded(message)));
}

std::string Shown(py::handle value) {
  constexpr std::size_t kMost = 60;
  const auto text = py::reinterpret_steal<py::object>(PyObject_ASCII(value.ptr()));
  if (!text) {
    PyErr_Clear();
    return absl::StrCat("a ", Py_TYPE(value.ptr())->tp_name);
  }
  std::string shown = text.cast<std::string>();
  if (absl::StrContains(shown, " at 0x")) return absl::StrCat("a ", Py_TYPE(value.ptr())->tp_name);
  if (shown.size() > kMost) shown = absl::StrCat(shown.substr(0, kMost), "...");
  return shown;
}

std::int64_t ToInteger(const std::string& name, py::handle value, std::int64_t least,
                       std::int64_t most) {
  const auto index = PyBool_Check(value.ptr()) != 0
                         ? py::object()
                         : py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
    RaiseKind(name, "a whole number", value);
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0 && number >= least && number <= most) return number;
  Raise(InvalidArgument(name, ": expected ", least, " to ", most, ", found ", Shown(index)));
}

double ToNumber(const std::string& name, py::handle value) {
  if (PyBool_Check(value.ptr()) != 0) RaiseKind(name, "a number", value);
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    RaiseKind(name, "a number", value);
  }
  return number;
}

bool ToBool(const std::string& name, py::handle value) {
  if (PyBool_Check(value.ptr()) == 0) RaiseKind(name, "True or False", value);
  return value.ptr() == Py_True;
}

std::string ToText(const std::string& name, py::handle value) {
  if (PyUnicode_Check(value.ptr()) == 0) RaiseKind(name, "a text", value);
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    RaiseKind(name, "a text", value);
  }
  return {text, static_cast<std::size_t>(size)};
}

std::string ToPath(const std::string& name, py::handle value) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(value.ptr(), &bytes) == 0) {
    PyErr_Clear();
    RaiseKind(name, "a path", value);
  }
  return py::reinterpret_steal<py::bytes>(bytes);
}

std::uint64_t ToSize(const std::string& name, py::handle value) {
  if (PyUnicode_Check(value.ptr()) == 0) {
    return static_cast<std::uint64_t>(
        ToInteger(name, value, 0, std::numeric_limits<std::int64_t>::max()));
  }
  const absl::StatusOr<std::uint64_t> size = ParseSize(ToText(name, value));
  if (!size.ok()) Raise(InvalidArgument(name, ": ", size.status().message()));
  return *size;
}

std::chrono::nanoseconds ToDuration(const std::string& name, py::handle value) {
  constexpr double kMostSeconds = 1e9;
  if (PyUnicode_Check(value.ptr()) != 0) {
    const absl::StatusOr<std::chrono::nanoseconds> time = ParseDuration(ToText(name, value));
    if (!time.ok()) Raise(InvalidArgument(name, ": ", time.status().message()));
    return *time;
  }
  const bool is_delta = py::hasattr(value, "total_seconds");
  const double seconds =
      is_delta ? ToNumber(name, value.attr("total_seconds")()) : ToNumber(name, value);
  if (!(seconds > 0 && seconds <= kMostSeconds))
    Raise(InvalidArgument(name, ": expected seconds above 0, found ", Shown(value)));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

py::object ToPython(const nlohmann::ordered_json& json) {
  using Json = nlohmann::ordered_json;
  switch (json.type()) {
    case Json::value_t::boolean:
      return py::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return py::int_(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return py::int_(json.get<std::uint64_t>());
    case Json::value_t::number_float:
      return py::float_(json.get<double>());
    case Json::value_t::string:
      return Decoded(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      py::list list;
      for (const Json& element : json) list.append(ToPython(element));
      return list;
    }
    case Json::value_t::object: {
      py::dict dict;
      for (const auto& [key, value] : json.items()) dict[Decoded(key)] = ToPython(value);
      return dict;
    }
    default:
      return py::none();
  }
}

py::dict InfoOf(const std::string& path, const IndexInfo& info) {
  return ToPython(InfoJson(path, info));
}

}  // namespace hmann::python
