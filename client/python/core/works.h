/// The functions for Python that need no open index.
#pragma once

#include <pybind11/pybind11.h>

#include "client/python/core/convert.h"
#include "hmann/build.h"

namespace hmann::python {

/// Builds an index and returns the output of `hmann build --json`. `base`: a path or an
/// array; `labels`: None, a path, or an array of n whole numbers. `options`: rows of
/// BuildTable().
py::object Build(py::handle base, py::handle out, py::handle labels, const py::dict& options,
                 const py::object& progress);
/// Runs the build that `call` describes, with a plan first if fast memory is given.
py::object BuildWatched(BuildCall* call, const py::object& progress);
/// Returns the output of `hmann plan --json`. `options`: rows of PlanTable().
py::object Plan(const py::dict& options);
py::object ReadInfo(py::handle path);
/// Returns (labels, distances).
py::tuple ExactNeighbors(py::handle base, py::handle queries, py::handle k, py::handle metric,
                         py::handle threads, const py::object& progress);

}  // namespace hmann::python
