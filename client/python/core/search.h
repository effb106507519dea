/// An index opened from Python, and searches of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/python/core/convert.h"
#include "client/python/core/vectors.h"
#include "hmann/hmann.h"

namespace hmann::python {

/// {"recall": ..., "mean_us": ...} of a search to come; None: nothing is known.
py::object PredictedOf(const ResolvedSearch& resolved);

/// The vectors of an open index that may be answers.
struct IndexMatches {
  std::shared_ptr<const Index> index;
  Matches matches;
};

/// An open index with its idle searchers. The GIL guards all members. Converting an
/// argument or allocating an array may run Python code, which may release the GIL, and
/// then other calls change the members. So a call keeps its own copy of the index and of
/// its parameters.
class OpenedIndex {
 public:
  /// `options`: rows of OpenTable().
  OpenedIndex(py::handle path, const py::dict& options);
  ~OpenedIndex();
  OpenedIndex(const OpenedIndex&) = delete;
  OpenedIndex& operator=(const OpenedIndex&) = delete;

  /// Returns (labels, distances, None), each of shape (k,) for one query and (n, k) for
  /// several. A query with fewer than k answers is padded with label -1 and distance inf.
  /// With `details`, a dict of what ran replaces None. `filter`: a result of Matching, or
  /// nullptr. `params`: rows of SearchTable().
  py::tuple Search(py::handle queries, py::handle k, py::handle threads, py::handle in_flight,
                   bool details, const IndexMatches* filter, const py::dict& params);
  /// `accepted`: labels, or one bool for each of the labels 0, 1, ....
  std::unique_ptr<IndexMatches> Matching(py::handle accepted, const py::dict& arguments);
  /// What Search would run: {"params": ..., "predicted": ...}.
  py::dict Resolve(py::handle k, const py::dict& params);

  /// Vectors by label: shape (n, dim), or (dim,) for one label.
  py::array Get(py::handle labels);
  py::dict Info() const;
  py::list Placements() const;
  py::list Warnings() const;
  void Warm() const;
  /// Returns (the output of `hmann tune --json` for each k, warnings).
  py::tuple Tune(py::handle k, py::handle recall, py::handle latency, const py::dict& options,
                 const py::object& progress);
  /// Writes to `out`; None: to the index file itself, which is then opened again.
  py::object Promote(py::handle out, const py::dict& options, const py::object& progress);

  const std::string& path() const { return path_; }
  const IndexInfo& info() const { return Opened()->info(); }
  bool closed() const { return index_ == nullptr; }
  /// Running searches finish normally; later ones raise.
  void Close();

 private:
  /// Raises FailedPreconditionError if the index is closed or was opened before a fork:
  /// its threads and its device queue belong to the parent.
  const std::shared_ptr<const Index>& Opened() const;
  std::shared_ptr<const Index> Open() const;
  /// Opens the index again, unless it is closed meanwhile.
  void OpenAgain();
  ResolvedSearch ResolveCached(const std::shared_ptr<const Index>& index,
                               const SearchParams& params);
  std::vector<std::unique_ptr<Searcher>> Borrow(const std::shared_ptr<const Index>& index,
                                                std::size_t count);
  void Return(const std::shared_ptr<const Index>& index,
              std::vector<std::unique_ptr<Searcher>> searchers);

  std::string path_;
  OpenOptions options_;
  std::shared_ptr<const Index> index_;
  std::vector<std::unique_ptr<Searcher>> idle_;  ///< of index_
  std::uint64_t forks_ = 0;                      ///< number of forks before it was opened

  /// The last resolution without a filter: most searches repeat the previous parameters.
  SearchParams asked_;
  std::optional<ResolvedSearch> resolved_;
};

}  // namespace hmann::python
