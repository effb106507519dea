/// Arrays of numpy as vectors of the engine, and the other way round: without a copy
/// wherever the components of a row lie side by side.
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

/// Rows of an array: `array` keeps what `data` points to.
struct Rows {
  py::array array;
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  std::ptrdiff_t stride = 0;  ///< bytes from row to row; may be negative
  bool single = false;        ///< of shape (dim,)
};

/// `value` as rows: an array, or what numpy makes one of. Copied only where the
/// components of a row do not lie side by side. `single_too`: one vector of shape (dim,),
/// too. Raises InvalidArgumentError, `name` in front, for another dtype or number of
/// dimensions.
Rows ToRows(const std::string& name, py::handle value, bool single_too);

/// Labels: whole numbers, none of them negative, since -1 stands for no answer. Of shape
/// (n,); `single_too`: one number, too, of shape ().
py::array_t<std::int64_t> ToLabels(py::handle value, bool single_too);

/// The vectors of an array or of a file, and who keeps them.
struct Vectors {
  py::array array;
  VectorFile file;
};
/// A path, or an array of shape (n, dim). `rows`: of a file, the first so many.
Vectors ToVectors(const std::string& name, py::handle value, std::uint64_t rows = 0);
/// Of an array. `keep`: whoever builds.
VectorsInMemory ToMemory(const std::string& name, py::handle value, py::object* keep);
bool IsPath(py::handle value);

py::array ReadVectors(py::handle path, py::handle rows);
void WriteVectors(py::handle path, py::handle vectors);
/// (labels, distances); None for distances where the file has none.
py::tuple ReadTruth(py::handle path);
py::tuple ToPython(const GroundTruth& truth);
/// Mean recall of the first k answers.
double Recall(const py::array& labels, const py::array& distances, const py::array& true_labels,
              const py::object& true_distances, py::handle k);

}  // namespace hmann::python
