/// What Python may ask for without an open index.
#pragma once

#include <pybind11/pybind11.h>

#include "client/python/core/convert.h"
#include "hmann/build.h"
#include "index/report/report.h"

namespace hmann::python {

/// What `hmann build --json` says. `base`: a path or an array; `labels`:
/// None, a path, or an array of n whole numbers. `options`: rows of BuildTable().
py::object Build(py::handle base, py::handle out, py::handle labels, const py::dict& options,
                 const py::object& progress);
/// Plans, where fast memory is given, and builds: the same of what is said in C++.
py::object BuildWatched(BuildCall* call, const py::object& progress);
/// What `hmann plan --json` says. `options`: rows of PlanTable().
py::object Plan(const py::dict& options);
py::object ReadInfo(py::handle path);
/// (labels, distances).
py::tuple ExactNeighbours(py::handle base, py::handle queries, py::handle k, py::handle metric,
                          py::handle threads, const py::object& progress);

}  // namespace hmann::python
