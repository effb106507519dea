/// Converts numpy arrays to engine vectors and back, without a copy if the components of
/// each row are contiguous.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/python/core/convert.h"
#include "datasets/ground_truth.h"
#include "datasets/vector_file.h"
#include "hmann/build_options.h"
#include "hmann/distance.h"

namespace hmann::python {

/// "float32", "float16", "uint8", "int8".
const char* NumpyName(DType dtype);
py::dtype NumpyType(DType dtype);

/// Converts `value` to an array of any dtype, by hmann._arrays unless it is one. Raises
/// InvalidArgumentError, prefixed with `name`, for what numpy cannot make an array of,
/// and for masked entries, whose values are none.
py::array ToArray(const std::string& name, py::handle value);

/// Rows of an array. `array` keeps the memory of `data` alive.
struct Rows {
  py::array array;
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  std::ptrdiff_t stride = 0;  ///< bytes from one row to the next; may be negative
  bool single = false;        ///< of shape (dim,)
};

/// Converts `value`, an array or anything that hmann._arrays can make one of, to rows of
/// `wanted`; nullopt: of their own dtype, otherwise f32. An array of that dtype is copied
/// only if the components of a row are not contiguous. `single_too`: also accepts one
/// vector of shape (dim,). Raises InvalidArgumentError, prefixed with `name`, for values
/// that `wanted` does not hold, or another number of dimensions.
Rows ToRows(const std::string& name, py::handle value, bool single_too,
            std::optional<DType> wanted = std::nullopt);

/// Checks labels: whole numbers, not negative, since -1 stands for no answer; or none.
/// Shape (n,); `single_too`: also one number of shape (). `advice` ends the errors.
py::array_t<std::int64_t> ToLabels(const std::string& name, const py::array& array, bool single_too,
                                   const char* advice = "");

/// The vectors of an array or a file, with their owner.
struct Vectors {
  py::array array;
  VectorFile file;
};
/// Accepts a path, or what ToRows does, of shape (n, dim).
Vectors ToVectors(const std::string& name, py::handle value,
                  std::optional<DType> wanted = std::nullopt);
/// Accepts what ToRows does. `keep`: receives the owner, for the duration of the build.
VectorsInMemory ToMemory(const std::string& name, py::handle value, py::object* keep,
                         std::optional<DType> wanted = std::nullopt);
bool IsPath(py::handle value);

py::array ReadVectors(py::handle path, py::handle rows);
void WriteVectors(py::handle path, py::handle vectors);
/// Returns (labels, distances); distances is None if the file has none.
py::tuple ReadTruth(py::handle path);
py::tuple ToPython(const GroundTruth& truth);
/// Mean recall of the first k answers.
double Recall(const py::object& labels, const py::object& distances, const py::object& true_labels,
              const py::object& true_distances, py::handle k, py::handle metric);

}  // namespace hmann::python
