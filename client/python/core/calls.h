/// What calls of indexes and of collections share: forks, arguments, space for answers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/python/core/batch.h"
#include "client/python/core/convert.h"
#include "client/python/core/vectors.h"
#include "hmann/filter.h"
#include "hmann/hmann.h"

namespace hmann::python {

/// Starts counting the forks that led to this process. Call once.
void WatchForks();
std::uint64_t Forks();

/// A whole number of 1 to `most`; `otherwise` for None.
std::uint32_t Or(const char* name, py::handle value, std::uint32_t most, std::uint32_t otherwise);
/// Allocates an array. A MemoryError of numpy becomes RESOURCE_EXHAUSTED.
py::array RoomOf(const py::dtype& type, std::vector<py::ssize_t> shape, const std::string& what);
/// The same for vectors: shape (n, dim), or (dim,) for a single one.
py::array VectorRoom(DType dtype, std::uint32_t dim, py::ssize_t n, bool single);

/// `given`: rows of SearchTable().
SearchParams ToParams(py::handle k, const py::dict& given);
/// `arguments`: lists of values by name.
Filter ToFilter(py::handle text, const py::dict& arguments);
py::dict DictOf(const ResolvedParams& params);
py::dict DictOf(const Counters& counters);

/// The queries of one call, with space for their answers.
struct QueryCall {
  Rows rows;
  py::array_t<std::int64_t> labels;
  py::array_t<float> distances;
  Batch batch;
};
/// Raises InvalidArgumentError for queries of another type or dimension than `dtype` and
/// `dim`. `whose`: "index".
QueryCall ToQueries(py::handle queries, const ResolvedParams& params, DType dtype,
                    std::uint32_t dim, const char* whose);
/// Threads that share n queries. `threads`: None or a number.
std::size_t ThreadsFor(std::uint64_t n, py::handle threads);

}  // namespace hmann::python
