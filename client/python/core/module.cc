// hmann._core: the native part of the package. The Python sources hold the docstrings.
#include <pybind11/pybind11.h>

#include <new>
#include <system_error>

#include "client/python/core/calls.h"
#include "client/python/core/collection.h"
#include "client/python/core/options.h"
#include "client/python/core/search.h"
#include "client/python/core/vectors.h"
#include "client/python/core/works.h"
#include "index/base/errors.h"

namespace hmann::python {
namespace {

/// Translates exceptions of lower-level libraries to the engine's errors.
// By value, as pybind11 has it. NOLINTNEXTLINE(performance-unnecessary-value-parameter)
void Translate(std::exception_ptr thrown) {
  try {
    try {
      if (thrown != nullptr) std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      Raise(ResourceExhausted("out of memory"));
    } catch (const std::system_error& error) {
      Raise(ThreadRefused(error));
    } catch (const py::error_already_set&) {
      throw;
    } catch (const py::builtin_exception&) {
      throw;
    } catch (const std::exception& error) {
      Raise(Internal(error.what()));
    }
  } catch (py::error_already_set& error) {
    error.restore();
  }
}

void AddIndex(py::module_& module) {
  py::class_<IndexMatches>(module, "Matches").def("__len__", [](const IndexMatches& made) {
    return made.matches.size();
  });
  py::class_<OpenedIndex>(module, "Index")
      .def(py::init<py::handle, const py::dict&>())
      .def("search", &OpenedIndex::Search)
      .def("resolve", &OpenedIndex::Resolve)
      .def("matching", &OpenedIndex::Matching)
      .def("get", &OpenedIndex::Get)
      .def("info", &OpenedIndex::Info)
      .def("placements", &OpenedIndex::Placements)
      .def("warnings", &OpenedIndex::Warnings)
      .def("warm", &OpenedIndex::Warm)
      .def("tune", &OpenedIndex::Tune)
      .def("promote", &OpenedIndex::Promote)
      .def("close", &OpenedIndex::Close)
      .def_property_readonly("closed", &OpenedIndex::closed)
      .def_property_readonly("path",
                             [](const OpenedIndex& index) { return ToPython(index.path()); })
      .def_property_readonly("n", [](const OpenedIndex& index) { return index.info().n; })
      .def_property_readonly("dim", [](const OpenedIndex& index) { return index.info().dim; })
      .def_property_readonly("dtype",
                             [](const OpenedIndex& index) { return NumpyType(index.info().dtype); })
      .def_property_readonly("metric", [](const OpenedIndex& index) {
        return std::string(Name(index.info().metric));
      });
}

void AddCollection(py::module_& module) {
  using Kind = WriteBatch::Kind;
  module.def("create_collection", &CreateFolder);
  py::class_<OpenedCollection>(module, "Collection")
      .def(py::init<py::handle, const py::dict&>())
      .def("put",
           [](OpenedCollection& to, py::handle labels, py::handle vectors,
              const py::object& attributes) {
             return to.Write(Kind::kPut, labels, vectors, attributes);
           })
      .def("update",
           [](OpenedCollection& to, py::handle labels, const py::object& attributes) {
             return to.Write(Kind::kUpdate, labels, py::none(), attributes);
           })
      .def("delete_labels",
           [](OpenedCollection& from, py::handle labels) {
             return from.Write(Kind::kDelete, labels, py::none(), py::none());
           })
      .def("delete_matches", &OpenedCollection::DeleteMatches)
      .def("search", &OpenedCollection::Search)
      .def("get", &OpenedCollection::Get)
      .def("names", &OpenedCollection::Names)
      .def("info", &OpenedCollection::Info)
      .def("compact", &OpenedCollection::Compact)
      .def("verify", &OpenedCollection::Verify)
      .def("backup", &OpenedCollection::Backup)
      .def("close", &OpenedCollection::Close)
      .def("__len__", &OpenedCollection::size)
      .def_property_readonly("closed", &OpenedCollection::closed)
      .def_property_readonly("path",
                             [](const OpenedCollection& of) { return ToPython(of.folder()); })
      .def_property_readonly("dim", &OpenedCollection::dim)
      .def_property_readonly("dtype",
                             [](const OpenedCollection& of) { return NumpyType(of.dtype()); })
      .def_property_readonly(
          "metric", [](const OpenedCollection& of) { return std::string(Name(of.metric())); });
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  WatchForks();
  py::register_exception_translator(Translate);
  module.attr("version") = HMANN_VERSION;
  module.def("build", &Build);
  module.def("plan", &Plan);
  module.def("read_info", &ReadInfo);
  module.def("exact_neighbors", &ExactNeighbors);
  module.def("read_vectors", &ReadVectors);
  module.def("write_vectors", &WriteVectors);
  module.def("read_truth", &ReadTruth);
  module.def("recall", &Recall);
  py::dict tables;
  tables["build"] = Describe(BuildTable());
  tables["promote"] = Describe(PromoteTable());
  tables["plan"] = Describe(PlanTable());
  tables["open"] = Describe(OpenTable());
  tables["create_collection"] = Describe(CreateTable());
  tables["open_collection"] = Describe(OpenCollectionTable());
  tables["tune"] = Describe(TuneTable());
  tables["search"] = Describe(SearchTable());
  module.attr("tables") = tables;
  AddIndex(module);
  AddCollection(module);
}

}  // namespace hmann::python
