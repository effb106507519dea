/// A collection opened from Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/python/core/convert.h"
#include "client/python/core/vectors.h"
#include "hmann/collection.h"

namespace hmann::python {

/// `options`: rows of CreateTable().
void CreateFolder(py::handle folder, const py::dict& options);

/// An open collection with its idle searchers. As in an OpenedIndex, the GIL guards all
/// members, and a call keeps its own copy of what it uses.
class OpenedCollection {
 public:
  /// `options`: rows of OpenCollectionTable().
  OpenedCollection(py::handle folder, const py::dict& options);
  ~OpenedCollection();
  OpenedCollection(const OpenedCollection&) = delete;
  OpenedCollection& operator=(const OpenedCollection&) = delete;

  /// Writes return the number of vectors that were put, updated or deleted. Many changes
  /// are several writes. Compacts the collection first if the memory for new rows is used
  /// up. `attributes`: JSON objects as texts in a list, one text for all, or None.
  std::uint64_t Write(WriteBatch::Kind kind, py::handle labels, py::handle vectors,
                      const py::object& attributes);
  /// `all`: also if the filter holds for all vectors. `filter`: None: all vectors.
  std::uint64_t DeleteMatches(py::handle filter, const py::dict& arguments, bool all);

  /// As OpenedIndex::Search, at one moment. `filter`: None or a text.
  py::tuple Search(py::handle queries, py::handle k, py::handle threads, bool details,
                   py::handle filter, const py::dict& arguments, const py::dict& params);
  /// Returns (vectors, JSON texts): shape (n, dim), or (dim,) for one label. Without
  /// `attributes`, no texts.
  py::tuple Get(py::handle labels, bool attributes);

  /// The strings that labels of answers stand for; empty: none.
  using LabelArray = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
  py::list Names(const LabelArray& labels) const;
  py::dict Info() const;
  std::uint64_t size() const { return LiveRows(*Opened()->Now()); }
  void Compact(const py::object& progress);
  void Verify(const py::object& progress) const;
  std::uint64_t Backup(py::handle folder) const;

  const std::string& folder() const { return folder_; }
  std::uint32_t dim() const { return dim_; }
  DType dtype() const { return dtype_; }
  Metric metric() const { return metric_; }
  bool closed() const { return collection_ == nullptr; }
  /// Running calls finish normally; later ones raise.
  void Close();

 private:
  using Searchers = std::vector<std::unique_ptr<CollectionSearcher>>;

  /// Raises FailedPreconditionError if the collection is closed or was opened before a
  /// fork: its threads belong to the parent.
  const std::shared_ptr<Collection>& Opened() const;
  Searchers Borrow(std::size_t count);
  void Return(std::uint64_t sequence, Searchers searchers);

  std::string folder_;
  std::shared_ptr<Collection> collection_;
  DType dtype_ = DType::kF32;
  Metric metric_ = Metric::kL2;
  std::uint32_t dim_ = 0;
  Searchers idle_;
  std::uint64_t idle_sequence_ = 0;  ///< the last moment that they have searched
  std::uint64_t forks_ = 0;          ///< number of forks before it was opened
};

}  // namespace hmann::python
