/// An index that Python has opened, and searches of it.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/python/core/convert.h"
#include "client/python/core/vectors.h"
#include "hmann/hmann.h"

namespace hmann::python {

/// Counts the forks that led to this process, from here on. Called once.
void WatchForks();

/// Which vectors of an opened index may be answers.
struct IndexMatches {
  std::shared_ptr<const Index> index;
  Matches matches;
};

/// An opened index with its idle searchers. The GIL guards all of it: searches borrow
/// what they need before they let go of it.
class OpenedIndex {
 public:
  /// `options`: rows of OpenTable().
  OpenedIndex(py::handle path, const py::dict& options);
  ~OpenedIndex();
  OpenedIndex(const OpenedIndex&) = delete;
  OpenedIndex& operator=(const OpenedIndex&) = delete;

  /// (labels, distances, None), each of shape (k,) for one query and (n, k) for several;
  /// a query with fewer than k answers is filled up with label -1 and distance inf. With
  /// `details` a dict of what ran instead of None. `filter`: what Matching gives, or
  /// nullptr. `dials`: rows of SearchTable().
  py::tuple Search(py::handle queries, py::handle k, py::handle threads, py::handle in_flight,
                   bool details, const IndexMatches* filter, const py::dict& dials);
  /// `accepted`: labels, or a bool for each of the labels 0, 1, ....
  std::unique_ptr<IndexMatches> Matching(py::handle accepted);
  /// What Search would run: {"dials": ..., "predicted": ...}.
  py::dict Resolve(py::handle k, const py::dict& dials);

  /// Vectors by their labels, (n, dim), or (dim,) of one label.
  py::array Get(py::handle labels);
  py::dict Info() const;
  py::list Placements() const;
  py::list Warnings() const;
  void Warm() const;
  /// (what `hmann tune --json` says of each k, warnings).
  py::tuple Tune(py::handle k, py::handle recall, py::handle latency, const py::dict& options,
                 const py::object& progress);
  /// To `out`, or None for the file itself, which is then opened anew.
  py::object Promote(py::handle out, const py::dict& options, const py::object& progress);

  const std::string& path() const { return path_; }
  const IndexInfo& info() const { return Opened()->info(); }
  bool closed() const { return index_ == nullptr; }
  /// Searches that run end as they would; later ones raise.
  void Close();

 private:
  /// Raises FailedPreconditionError where it is closed, or was opened before a fork: its
  /// threads and its queue to the device are the parent's.
  const std::shared_ptr<const Index>& Opened() const;
  void Open();
  const ResolvedSearch& ResolveCached(py::handle k, const py::dict& dials,
                                      const IndexMatches* filter = nullptr);
  std::vector<std::unique_ptr<Searcher>> Borrow(std::size_t count);
  void Return(std::vector<std::unique_ptr<Searcher>> searchers);

  std::string path_;
  OpenOptions options_;
  std::shared_ptr<const Index> index_;
  std::vector<std::unique_ptr<Searcher>> idle_;
  std::uint64_t forks_ = 0;  ///< before it was opened

  /// What the last search resolved to: most are followed by more of the same.
  py::dict asked_;
  std::int64_t asked_k_ = 0;
  std::optional<ResolvedSearch> resolved_;
  std::chrono::nanoseconds budget_{0};
};

}  // namespace hmann::python
