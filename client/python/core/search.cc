#include "client/python/core/search.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/python/core/calls.h"
#include "client/python/core/gil.h"
#include "client/python/core/options.h"
#include "client/python/core/watch.h"
#include "client/python/core/works.h"
#include "hmann/tune.h"
#include "index/base/errors.h"
#include "index/report/report.h"

namespace hmann::python {

py::object PredictedOf(const ResolvedSearch& resolved) {
  nlohmann::ordered_json predicted;
  if (resolved.calibrated_recall.has_value()) {
    predicted = {{"recall", *resolved.calibrated_recall}, {"mean_us", nullptr}};
  } else if (resolved.tuned.has_value()) {
    predicted = {{"recall", resolved.tuned->recall}, {"mean_us", resolved.tuned->mean_us}};
  } else {
    return py::none();
  }
  predicted["predicted_for"] = resolved.predicted_for;
  return ToPython(predicted);
}

namespace {

/// Labels of 0 and 1 only, as many as vectors, are a mask that was saved as numbers.
void CheckNoMask(std::span<const std::uint64_t> labels, bool of_bytes, std::uint64_t n) {
  if (labels.size() != n || (n <= 2 && !of_bytes) || *std::ranges::max_element(labels) > 1) return;
  Raise(InvalidArgument("filter: ", n,
                        " numbers of 0 and 1, as many as vectors, may be a mask or "
                        "labels: pass mask.astype(bool), or each label once"));
}

}  // namespace

OpenedIndex::OpenedIndex(py::handle path, const py::dict& options)
    : path_(ToPath("path", path)), forks_(Forks()) {
  Fill(OpenTable(), options, &options_);
  index_ = Open();
}

OpenedIndex::~OpenedIndex() { Close(); }

void OpenedIndex::Close() {
  if (forks_ == Forks()) {
    const auto idle = std::exchange(idle_, {});
    std::shared_ptr<const Index> index = std::exchange(index_, nullptr);
    // Unmapping large regions takes time.
    const WithoutGil without_gil;
    index.reset();
    return;
  }
  // Its threads do not exist in this process, so its destructor would wait forever.
  new std::shared_ptr<const Index>(std::move(index_));
  new std::vector<std::unique_ptr<Searcher>>(std::move(idle_));
  index_ = nullptr;
}

std::shared_ptr<const Index> OpenedIndex::Open() const {
  absl::StatusOr<std::shared_ptr<const Index>> index = absl::UnknownError("not opened");
  {
    const WithoutGil without_gil;
    index = Index::Open(path_, options_);
  }
  return Value(std::move(index));
}

void OpenedIndex::OpenAgain() {
  if (closed()) return;
  std::shared_ptr<const Index> index = Open();
  if (closed()) return;
  idle_.clear();
  resolved_.reset();
  index_ = std::move(index);
}

const std::shared_ptr<const Index>& OpenedIndex::Opened() const {
  if (index_ == nullptr) Raise(FailedPrecondition("the index is closed"));
  if (forks_ != Forks()) {
    Raise(FailedPrecondition(
        "the index was opened before this process was forked: open it in the child"));
  }
  return index_;
}

std::vector<std::unique_ptr<Searcher>> OpenedIndex::Borrow(
    const std::shared_ptr<const Index>& index, std::size_t count) {
  std::vector<std::unique_ptr<Searcher>> searchers;
  searchers.reserve(count);
  for (; index == index_ && searchers.size() < count && !idle_.empty(); idle_.pop_back())
    searchers.push_back(std::move(idle_.back()));
  while (searchers.size() < count) searchers.push_back(std::make_unique<Searcher>(index));
  return searchers;
}

void OpenedIndex::Return(const std::shared_ptr<const Index>& index,
                         std::vector<std::unique_ptr<Searcher>> searchers) {
  if (index != index_) return;
  for (std::unique_ptr<Searcher>& searcher : searchers) idle_.push_back(std::move(searcher));
}

ResolvedSearch OpenedIndex::ResolveCached(const std::shared_ptr<const Index>& index,
                                          const SearchParams& params) {
  if (index != index_ || params.matches != nullptr) return Value(index->Resolve(params));
  if (!resolved_.has_value() || asked_ != params) {
    resolved_ = Value(index->Resolve(params));
    asked_ = params;
  }
  return *resolved_;
}

py::dict OpenedIndex::Resolve(py::handle k, const py::dict& params) {
  const std::shared_ptr<const Index> index = Opened();
  const ResolvedSearch resolved = ResolveCached(index, ToParams(k, params));
  py::dict dict;
  dict["params"] = DictOf(resolved.params);
  dict["predicted"] = PredictedOf(resolved);
  return dict;
}

py::tuple OpenedIndex::Search(py::handle queries, py::handle k, py::handle threads,
                              py::handle in_flight, bool details, const IndexMatches* filter,
                              const py::dict& params) {
  const std::shared_ptr<const Index> index = Opened();
  if (filter != nullptr && filter->index != index)
    Raise(
        InvalidArgument("filter: it was made for another index, or before it was "
                        "opened anew: make it by matching"));
  SearchParams asked = ToParams(k, params);
  if (filter != nullptr) asked.matches = &filter->matches;
  const ResolvedSearch resolved = ResolveCached(index, asked);
  const auto budget = asked.budget.value_or(std::chrono::nanoseconds(0));
  const IndexInfo& info = index->info();
  QueryCall call = ToQueries(queries, resolved.params, info.dtype, info.dim, "index");
  Batch& batch = call.batch;
  batch.budget = budget;
  batch.on_device = index->on_block_tier();
  batch.counts = details;
  batch.in_flight =
      Or("in_flight", in_flight, kMostInFlight, budget.count() > 0 ? 1 : resolved.in_flight);
  auto searchers = Borrow(index, ThreadsFor(batch.n, threads));
  BatchOutcome outcome;
  try {
    outcome = RunBatch(batch, searchers);
  } catch (...) {
    Return(index, std::move(searchers));
    throw;
  }
  Return(index, std::move(searchers));
  Check(outcome.status);
  if (!details)
    return py::make_tuple(std::move(call.labels), std::move(call.distances), py::none());
  py::dict reported;
  reported["params"] = DictOf(resolved.params);
  reported["counters"] = DictOf(outcome.counters);
  reported["cut_short"] = outcome.cut_short;
  reported["predicted"] = PredictedOf(resolved);
  if (filter != nullptr) reported["matches"] = filter->matches.size();
  return py::make_tuple(std::move(call.labels), std::move(call.distances), std::move(reported));
}

std::unique_ptr<IndexMatches> OpenedIndex::Matching(py::handle accepted,
                                                    const py::dict& arguments) {
  const std::shared_ptr<const Index> index = Opened();
  absl::StatusOr<Matches> matches = absl::UnknownError("not looked for");
  if (py::isinstance<py::str>(accepted)) {
    const Filter filter = ToFilter(accepted, arguments);
    absl::StatusOr<std::shared_ptr<const Matches>> filtered = absl::UnknownError("not looked for");
    {
      const WithoutGil without_gil;
      filtered = index->Filtered(filter);
    }
    return std::make_unique<IndexMatches>(index, *Value(std::move(filtered)));
  }
  if (!arguments.empty())
    Raise(InvalidArgument("filter_arguments: expected a filter that names them, found none"));
  const py::array array = ToArray("filter", accepted);
  if (array.size() > 0 && array.dtype().kind() == 'b') {
    const auto mask = py::array_t<bool, py::array::c_style>::ensure(array);
    if (mask.ndim() != 1) Raise(InvalidArgument("filter: expected a mask of one dimension"));
    const std::span<const bool> of(mask.data(), static_cast<std::size_t>(mask.size()));
    const WithoutGil without_gil;
    matches = index->Matching([of](std::uint64_t label) { return label < of.size() && of[label]; });
  } else {
    const py::array_t<std::int64_t> wanted = ToLabels("filter", array, false);
    std::vector<std::uint64_t> labels(wanted.data(), wanted.data() + wanted.size());
    CheckNoMask(labels, array.itemsize() == 1, index->info().n);
    const WithoutGil without_gil;
    std::sort(labels.begin(), labels.end());
    matches = index->Matching([&labels](std::uint64_t label) {
      return std::binary_search(labels.begin(), labels.end(), label);
    });
  }
  return std::make_unique<IndexMatches>(index, Value(std::move(matches)));
}

py::array OpenedIndex::Get(py::handle labels) {
  const std::shared_ptr<const Index> index = Opened();
  const py::array_t<std::int64_t> wanted = ToLabels("labels", ToArray("labels", labels), true);
  const bool single = wanted.ndim() == 0;
  const auto count = static_cast<std::size_t>(wanted.size());
  py::array vectors = VectorRoom(index->info().dtype, index->info().dim, wanted.size(), single);
  const std::span<const std::uint64_t> of(reinterpret_cast<const std::uint64_t*>(wanted.data()),
                                          count);
  auto searchers = Borrow(index, 1);
  absl::Status status;
  const auto get = [&, to = vectors.mutable_data()](const std::atomic<bool>* cancelled) {
    SearchLimits limits;
    limits.cancelled = cancelled;
    status = searchers[0]->Get(of, to, nullptr, limits);
  };
  // Reading one vector from memory is faster than starting a thread.
  if (single && !index->on_block_tier()) {
    const WithoutGil without_gil;
    get(nullptr);
  } else {
    RunWatched(py::bool_(false), [&](const Watched& watched) { get(watched.cancelled); });
  }
  Return(index, std::move(searchers));
  Check(status);
  return vectors;
}

py::dict OpenedIndex::Info() const {
  const std::shared_ptr<const Index> index = Opened();
  return InfoOf(path_, index->info());
}

py::list OpenedIndex::Placements() const { return ToPython(ToJson(Opened()->Placements())); }

py::list OpenedIndex::Warnings() const { return ToPython(Opened()->Warnings()); }

void OpenedIndex::Warm() const {
  const std::shared_ptr<const Index> index = Opened();
  const WithoutGil without_gil;
  index->Warm(true);
}

py::tuple OpenedIndex::Tune(py::handle k, py::handle recall, py::handle latency,
                            const py::dict& given, const py::object& progress) {
  const IndexInfo info = this->info();
  TuneOptions options;
  options.index = path_;
  options.open = options_;
  Fill(TuneTable(), given, &options);
  options.k.clear();
  for (const py::handle one : k)
    options.k.push_back(
        static_cast<std::uint32_t>(ToInteger("k", one, 1, static_cast<std::int64_t>(info.n))));
  options.targets.clear();
  for (const py::handle one : recall)
    options.targets.push_back({.recall = ToNumber("recall", one)});
  for (const py::handle one : latency) {
    options.targets.push_back(
        {.latency_us =
             std::chrono::duration<double, std::micro>(ToDuration("latency", one)).count()});
  }
  const TuneReport report = Watch(progress, [&options](const Watched& watched) {
    options.cancelled = watched.cancelled;
    return hmann::Tune(options, watched.progress);
  });
  py::list tuned;
  for (const TunedForK& of_k : report.of_k) tuned.append(ToPython(ToJson(of_k)));
  // Open reads the tuned table, so the index is opened again.
  OpenAgain();
  return py::make_tuple(tuned, ToPython(report.warnings));
}

py::object OpenedIndex::Promote(py::handle out, const py::dict& given, const py::object& progress) {
  Opened();  // raises if the index is closed
  BuildCall call;
  call.build.from_index = path_;
  call.build.out = out.is_none() ? path_ : ToPath("out", out);
  Fill(PromoteTable(), given, &call);
  py::object report = BuildWatched(&call, progress);
  if (out.is_none()) OpenAgain();
  return report;
}

}  // namespace hmann::python
