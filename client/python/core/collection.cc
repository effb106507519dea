#include "client/python/core/collection.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/python/core/batch.h"
#include "client/python/core/calls.h"
#include "client/python/core/gil.h"
#include "client/python/core/options.h"
#include "client/python/core/search.h"
#include "client/python/core/watch.h"
#include "index/base/errors.h"
#include "index/report/report.h"

namespace hmann::python {
namespace {

/// Runs `work` without the GIL. It lets go of the collection before it takes the GIL
/// again: the last one to do so waits for threads and files.
template <typename Work>
auto Release(std::shared_ptr<Collection> collection, Work work) {
  const WithoutGil without_gil;
  auto result = work(*collection);
  collection.reset();
  return result;
}

/// Labels from Python, whole numbers or strings.
struct GivenLabels {
  py::array_t<std::int64_t> numbers;  ///< also those that strings stand for
  std::vector<std::string> names;     ///< of strings; empty: they are numbers

  std::span<const std::uint64_t> span() const {
    return {reinterpret_cast<const std::uint64_t*>(numbers.data()),
            static_cast<std::size_t>(numbers.size())};
  }
  VectorLabel At(std::size_t i) const {
    return names.empty() ? VectorLabel(span()[i]) : VectorLabel(names[i]);
  }
};

GivenLabels LabelsOf(py::handle labels) {
  const py::object found = py::module_::import("hmann._arrays").attr("labels")(labels);
  const bool is_one = py::isinstance<py::str>(found);
  if (!is_one && !py::isinstance<py::list>(found))
    return {ToLabels("labels", ToArray("labels", found), true, ", or strings"), {}};
  GivenLabels given;
  if (is_one) {
    given.names = {ToText("labels", found)};
    given.numbers = py::array_t<std::int64_t>(std::vector<py::ssize_t>{});
  } else {
    for (const py::handle word : found) given.names.push_back(ToText("labels", word));
    given.numbers = py::array_t<std::int64_t>(static_cast<py::ssize_t>(given.names.size()));
  }
  for (std::size_t i = 0; i < given.names.size(); ++i) {
    given.numbers.mutable_data()[i] =
        static_cast<std::int64_t>(VectorLabel(given.names[i]).number());
  }
  return given;
}

/// A text for each of n labels: `given` is a list of them, or one for all. It keeps the
/// texts alive.
std::vector<std::string_view> TextsOf(const py::object& given, std::size_t n) {
  if (py::isinstance<py::str>(given))
    return std::vector<std::string_view>(n, given.cast<std::string_view>());
  const auto list = given.cast<py::list>();
  if (list.size() != n)
    Raise(InvalidArgument("attributes: ", list.size(), " found, expected one for each of the ", n,
                          " labels, or one dict for all"));
  std::vector<std::string_view> texts;
  for (const py::handle text : list) texts.push_back(text.cast<std::string_view>());
  return texts;
}

/// A row of `vectors` for each of n labels, of the type that a collection of `dtype`
/// takes: half floats may also come as f32, rounded after the division by their norm.
Rows ToPut(py::handle vectors, DType dtype, std::uint32_t dim, std::size_t n) {
  const py::array array = ToArray("vectors", vectors);
  const bool is_half = array.dtype().kind() == 'f' && array.itemsize() == 2;
  Rows rows = ToRows("vectors", array, true, is_half ? dtype : QueryType(dtype));
  if (rows.dim == dim && rows.n == n) return rows;
  Raise(InvalidArgument("vectors: expected ", n, " for the labels, of ", dim, " x ",
                        NumpyName(dtype), " as in the collection, found ", rows.n, " of ",
                        rows.dim));
}

}  // namespace

void CreateFolder(py::handle folder, const py::dict& options) {
  CreateCollection create;
  Fill(CreateTable(), options, &create);
  create.dtype = create.build.dtype.value_or(create.dtype);
  const std::string path = ToPath("folder", folder);
  absl::Status status;
  {
    const WithoutGil without_gil;
    status = Collection::Create(path, create);
  }
  Check(status);
}

OpenedCollection::OpenedCollection(py::handle folder, const py::dict& options)
    : folder_(ToPath("folder", folder)), forks_(Forks()) {
  OpenCollection open;
  Fill(OpenCollectionTable(), options, &open);
  absl::StatusOr<std::shared_ptr<Collection>> collection = absl::UnknownError("not opened");
  CollectionInfo info;
  {
    const WithoutGil without_gil;
    collection = Collection::Is(folder_)
                     ? Collection::Open(folder_, open)
                     : NotFound(folder_, ": no collection: create_collection makes one");
    if (collection.ok()) info = (*collection)->info();
  }
  collection_ = Value(std::move(collection));
  dtype_ = info.dtype;
  metric_ = info.metric;
  dim_ = info.dim;
}

OpenedCollection::~OpenedCollection() { Close(); }

void OpenedCollection::Close() {
  Searchers idle = std::exchange(idle_, {});
  std::shared_ptr<Collection> collection = std::exchange(collection_, nullptr);
  if (forks_ != Forks()) {  // as OpenedIndex::Close
    new Searchers(std::move(idle));
    new std::shared_ptr<Collection>(std::move(collection));
    return;
  }
  const WithoutGil without_gil;
  idle.clear();
  collection.reset();
}

const std::shared_ptr<Collection>& OpenedCollection::Opened() const {
  if (collection_ == nullptr)
    Raise(FailedPrecondition(folder_, ": the collection is closed: open it again"));
  if (forks_ != Forks()) {
    Raise(FailedPrecondition(
        "the collection was opened before this process was forked: open it in the child, with "
        "read_only=True"));
  }
  return collection_;
}

std::uint64_t OpenedCollection::Write(WriteBatch::Kind kind, py::handle labels, py::handle vectors,
                                      const py::object& attributes) {
  using Kind = WriteBatch::Kind;
  const std::shared_ptr<Collection> collection = Opened();
  const GivenLabels given = LabelsOf(labels);
  const std::span<const std::uint64_t> of = given.span();
  Rows rows;
  if (kind == Kind::kPut) rows = ToPut(vectors, dtype_, dim_, of.size());
  const std::size_t bytes = rows.dim * SizeOf(rows.dtype);
  std::vector<std::string_view> texts(of.size());
  if (!attributes.is_none()) texts = TextsOf(attributes, of.size());
  const auto add = [&](std::size_t i, WriteBatch* batch) {
    if (kind == Kind::kDelete) return batch->Delete(given.At(i));
    if (kind == Kind::kUpdate) return batch->Update(given.At(i), texts[i]);
    batch->Put(given.At(i), rows.data + static_cast<std::ptrdiff_t>(i) * rows.stride, bytes,
               texts[i]);
  };
  std::uint64_t changed = 0;
  for (std::size_t done = 0; done < of.size();) {
    WriteBatch batch;
    const auto write = [&](Collection& to) { return to.Write(batch); };
    absl::StatusOr<Written> written = Release(collection, [&](Collection& to) {
      std::size_t size = 0;
      for (std::size_t i = done; i < of.size() && batch.size() < WriteBatch::kMostRows; ++i) {
        size += bytes + texts[i].size() + given.At(i).name().size();
        if (size > WriteBatch::kMostBytes && i > done) break;
        add(i, &batch);
      }
      return write(to);
    });
    if (absl::IsResourceExhausted(written.status())) {
      Compact(py::none());
      written = Release(collection, write);
    }
    if (!written.ok() && batch.size() < of.size()) {
      Raise(
          {written.status().code(), absl::StrCat("of rows ", done, " to ", done + batch.size() - 1,
                                                 ", ", written.status().message(), "; ", done,
                                                 " of ", of.size(), " are written")});
    }
    changed += Value(std::move(written)).rows;
    done += batch.size();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  return changed;
}

std::uint64_t OpenedCollection::DeleteMatches(py::handle filter, const py::dict& arguments,
                                              bool all) {
  std::optional<Filter> matching;
  if (!filter.is_none()) matching = ToFilter(filter, arguments);
  const auto remove = [&](Collection& from) -> absl::StatusOr<Written> {
    if (!matching.has_value()) return from.DeleteAll();
    const std::shared_ptr<const Moment> now = from.Now();
    const auto prepared = Prepare(now, {.k = 1}, &*matching);
    if (!prepared.ok()) return prepared.status();
    const std::uint64_t live = LiveRows(*now);
    if (live > 0 && MatchingRows(**prepared) == live && !all) {
      return FailedPrecondition("the filter holds for all ", live,
                                " vectors: with all=True they are deleted");
    }
    return from.Delete(*matching);
  };
  return Value(Release(Opened(), remove)).rows;
}

OpenedCollection::Searchers OpenedCollection::Borrow(std::size_t count) {
  Searchers searchers;
  for (; searchers.size() < count && !idle_.empty(); idle_.pop_back())
    searchers.push_back(std::move(idle_.back()));
  while (searchers.size() < count) searchers.push_back(std::make_unique<CollectionSearcher>());
  return searchers;
}

void OpenedCollection::Return(std::uint64_t sequence, Searchers searchers) {
  if (closed()) return;
  // Those that stay idle would keep indexes that no moment needs any more.
  if (sequence > idle_sequence_) idle_.clear();
  idle_sequence_ = std::max(idle_sequence_, sequence);
  for (auto& searcher : searchers) idle_.push_back(std::move(searcher));
}

py::tuple OpenedCollection::Search(py::handle queries, py::handle k, py::handle threads,
                                   bool details, py::handle filter, const py::dict& arguments,
                                   const py::dict& given) {
  // Not the collection: its last owner would wait for its threads.
  const std::shared_ptr<const Moment> moment = Opened()->Now();
  const SearchParams params = ToParams(k, given);
  std::optional<Filter> matching;
  if (!filter.is_none()) matching = ToFilter(filter, arguments);
  absl::StatusOr<std::shared_ptr<const PreparedSearch>> made = absl::UnknownError("not prepared");
  {
    const WithoutGil without_gil;
    made = Prepare(moment, params, matching ? &*matching : nullptr);
  }
  const std::shared_ptr<const PreparedSearch> prepared = Value(std::move(made));
  const ResolvedSearch search = SearchOf(*prepared);
  QueryCall call = ToQueries(queries, search.params, dtype_, dim_, "collection");
  call.batch.prepared = prepared.get();
  call.batch.counts = details;
  Searchers searchers = Borrow(ThreadsFor(call.batch.n, threads));
  const BatchOutcome outcome = RunBatch(call.batch, searchers);
  Return(SequenceOf(*moment), std::move(searchers));
  Check(outcome.status);
  py::object reported = py::none();
  if (details) {
    py::dict dict;
    dict["params"] = DictOf(search.params);
    dict["predicted"] = PredictedOf(search);
    dict["counters"] = DictOf(outcome.counters);
    dict["cut_short"] = outcome.cut_short;
    dict["sequence"] = SequenceOf(*moment);
    if (matching) dict["matches"] = MatchingRows(*prepared);
    reported = std::move(dict);
  }
  return py::make_tuple(std::move(call.labels), std::move(call.distances), std::move(reported));
}

py::tuple OpenedCollection::Get(py::handle labels, bool attributes) {
  const std::shared_ptr<const Moment> moment = Opened()->Now();
  const GivenLabels given = LabelsOf(labels);
  const py::array_t<std::int64_t>& array = given.numbers;
  py::array vectors = VectorRoom(dtype_, dim_, array.size(), array.ndim() == 0);
  std::vector<std::string> texts;
  Searchers searchers = Borrow(1);
  absl::Status status;
  {
    const WithoutGil without_gil;
    status = searchers[0]->Get(*moment, given.span(), vectors.mutable_data(),
                               attributes ? &texts : nullptr);
  }
  Return(SequenceOf(*moment), std::move(searchers));
  Check(status);
  return py::make_tuple(std::move(vectors), std::move(texts));
}

py::list OpenedCollection::Names(const LabelArray& labels) const {
  const GivenLabels given{labels, {}};
  return py::cast(Value(Release(Opened(), [&](Collection& of) { return of.Names(given.span()); })));
}

py::dict OpenedCollection::Info() const {
  return ToPython(ToJson(Release(Opened(), [](Collection& of) { return of.info(); })));
}

void OpenedCollection::Compact(const py::object& progress) {
  absl::Status status;
  const std::shared_ptr<Collection> collection = Opened();
  RunWatched(progress, [&](const Watched& watched) {
    status = collection->Compact(watched.progress, watched.cancelled);
  });
  Check(status);
}

void OpenedCollection::Verify(const py::object& progress) const {
  absl::Status status;
  const std::shared_ptr<Collection> collection = Opened();
  RunWatched(progress,
             [&](const Watched& watched) { status = collection->Verify(watched.progress); });
  Check(status);
}

std::uint64_t OpenedCollection::Backup(py::handle folder) const {
  const std::string to = ToPath("folder", folder);
  return Value(Release(Opened(), [&](Collection& of) { return of.Backup(to); }));
}

}  // namespace hmann::python
