/// Converts numpy arrays to engine vectors and back, without a copy if the components of
/// each row are contiguous.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
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

/// Converts `value` to an array as numpy does; a null one if it cannot. Raises
/// InvalidArgumentError, prefixed with `name`, for masked entries, whose values are none.
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

/// Converts `value`, an array or anything that numpy can make one of, to rows. Copies
/// only if the components of a row are not contiguous. `single_too`: also accepts one
/// vector of shape (dim,). Raises InvalidArgumentError, prefixed with `name`, for another
/// dtype or number of dimensions.
Rows ToRows(const std::string& name, py::handle value, bool single_too);

/// Converts labels: whole numbers, not negative, since -1 stands for no answer. Shape
/// (n,); `single_too`: also one number of shape ().
py::array_t<std::int64_t> ToLabels(py::handle value, bool single_too);

/// The vectors of an array or a file, with their owner.
struct Vectors {
  py::array array;
  VectorFile file;
};
/// Accepts a path, or an array of shape (n, dim). `rows`: number of leading rows of a
/// file to use.
Vectors ToVectors(const std::string& name, py::handle value, std::uint64_t rows = 0);
/// Accepts an array. `keep`: receives its owner, for the duration of the build.
VectorsInMemory ToMemory(const std::string& name, py::handle value, py::object* keep);
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
