#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/distance/simd_level.h"
#include "tools/collection_writer.h"
#include "tools/commands.h"
#include "tools/open_flags.h"
#include "tools/query_report.h"

namespace hmann::tools {
namespace {

struct SearchFlags {
  std::string index;
  OpenOptions open;
  QueryFlags query;
  std::string filter_tags;
  std::uint32_t in_flight = 1;
  bool cold = false;
};

using Clock = std::chrono::steady_clock;

/// The data of one thread. It has cache lines of its own, since it counts at every step.
template <typename SearcherType>
struct alignas(64) WorkerOf {
  SearcherType searcher;
  Answer answer = {};
  Counters counters = {};
  std::uint64_t cut_short = 0;
};
using Worker = WorkerOf<Searcher>;

void Take(const ResolvedSearch& search, QueryRun* run) {
  run->params = search.params;
  if (search.tuned.has_value())
    run->predicted = {search.tuned->recall, search.tuned->mean_us, search.predicted_for};
  if (search.calibrated_recall.has_value())
    run->predicted = {*search.calibrated_recall, std::nullopt, search.predicted_for};
}

/// Chooses the user's parameters, or those of the tuned table for the user's target.
absl::Status ChooseParams(const Index& index, const SearchParams& options, QueryRun* run) {
  HMANN_ASSIGN_OR_RETURN(const ResolvedSearch search, index.Resolve(options));
  run->requested = options;
  Take(search, run);
  return absl::OkStatus();
}

/// Runs queries i, i + threads, ... on each thread, `in_flight` of them at once.
absl::Status RunManyInFlight(const VectorFile& queries, std::vector<Worker>& workers,
                             const SearchLimits& limits, QueryRun* run) {
  const std::uint64_t count = queries.n(), threads = workers.size();
  run->answers.assign(count, {});
  run->latency_ns.assign(count, 0);
  std::vector<FirstError> outcome(threads);
  const auto work = [&](std::uint64_t thread) {
    const std::uint64_t share = count > thread ? (count - thread + threads - 1) / threads : 0;
    std::vector<Clock::time_point> begun(share);
    const absl::Status status = workers[thread].searcher.SearchMany(
        share,
        [&](std::size_t i) {
          begun[i] = Clock::now();
          return queries.Row(thread + i * threads);
        },
        run->params, run->in_flight,
        [&](std::size_t i, const absl::Status& done, Answer& answer) {
          const std::uint64_t query = thread + i * threads;
          outcome[thread].Note(query, done);
          run->latency_ns[query] = static_cast<std::uint64_t>((Clock::now() - begun[i]).count());
          run->answers[query].swap(answer.nearest);
          workers[thread].cut_short += answer.cut_short ? 1 : 0;
        },
        &workers[thread].counters, limits);
    outcome[thread].Note(thread, status);
  };
  const auto start = Clock::now();
  std::vector<std::jthread> others;
  for (std::uint64_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  others.clear();  // joins them
  run->seconds = SecondsSince(start);
  FirstError first;
  for (const FirstError& error : outcome) first.Note(error.item, error.status);
  return first.Named("query ");
}

/// The vectors that queries may find, and the parameters that suit them.
struct Selection {
  std::shared_ptr<const Matches> matches;
  ResolvedParams params;
};

absl::Status Select(const Index& index, const SearchParams& search, const std::string& text,
                    Selection* selection, QueryRun* run) {
  SearchParams options = search;
  if (!text.empty()) {
    HMANN_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(text));
    HMANN_ASSIGN_OR_RETURN(selection->matches, index.Filtered(filter));
    options.matches = selection->matches.get();
    run->filter = filter.text();
    run->matches += static_cast<double>(options.matches->size());
  }
  HMANN_RETURN_IF_ERROR(ChooseParams(index, options, run));
  selection->params = run->params;
  return absl::OkStatus();
}

/// The same in a collection.
absl::Status Select(const std::shared_ptr<const Moment>& moment, const SearchParams& search,
                    const std::string& text, std::shared_ptr<const PreparedSearch>* prepared,
                    QueryRun* run) {
  std::optional<Filter> filter;
  if (!text.empty()) {
    HMANN_ASSIGN_OR_RETURN(filter, Filter::Parse(text));
    run->filter = filter->text();
  }
  HMANN_ASSIGN_OR_RETURN(*prepared, Prepare(moment, search, filter ? &*filter : nullptr));
  run->requested = search;
  Take(SearchOf(**prepared), run);
  run->matches += static_cast<double>(MatchingRows(**prepared));
  return absl::OkStatus();
}

/// Selects by --filter once for all queries, or by --filter-tags for each.
template <typename Selected, typename From>
absl::StatusOr<std::vector<Selected>> SelectAll(const From& from, const SearchFlags& flags,
                                                std::uint64_t queries, QueryRun* run) {
  std::vector<std::string> filters = {flags.query.filter};
  if (!flags.filter_tags.empty()) {
    HMANN_ASSIGN_OR_RETURN(filters, ReadTagFilters(flags.filter_tags, queries));
    filters.resize(std::max<std::uint64_t>(queries, 1));
  }
  std::vector<Selected> selections(filters.size());
  for (std::size_t i = 0; i < filters.size(); ++i)
    HMANN_RETURN_IF_ERROR(Select(from, flags.query.search, filters[i], &selections[i], run));
  run->matches /= static_cast<double>(filters.size());
  if (!flags.filter_tags.empty()) run->filter = flags.filter_tags;
  return selections;
}

/// Adds up what the workers have counted, and reports.
template <typename AnyWorker>
absl::Status CountAndReport(const std::vector<AnyWorker>& workers, const QueryFlags& flags,
                            QueryRun* run) {
  const bool has_budget = flags.search.budget.has_value();
  run->counters.emplace();
  if (has_budget) run->cut_short.emplace(0);
  for (const AnyWorker& worker : workers) {
    *run->counters += worker.counters;
    if (has_budget) *run->cut_short += worker.cut_short;
  }
  return Report(*run, flags);
}

absl::Status SearchCollection(const SearchFlags& flags, VectorFile queries) {
  const auto start = Clock::now();
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.index, ForReading(flags.open), progress));
  QueryRun run;
  run.open_seconds = SecondsSince(start);
  const CollectionInfo info = collection->info();
  HMANN_RETURN_IF_ERROR(queries.FitQueries(info.dim, info.dtype, "the collection"));
  HMANN_RETURN_IF_ERROR(CheckFiles(flags.query, queries.n()));
  if (flags.in_flight > 1)
    return InvalidArgument("--in-flight: a thread answers one query of a collection at a time");
  if (flags.cold) return InvalidArgument("--cold: a collection is never read ahead");
  HMANN_ASSIGN_OR_RETURN(run.simd, ChosenSimd());
  run.metric = info.metric;
  run.n = std::max<std::uint64_t>(info.live, 1);
  run.threads = flags.query.threads;
  HMANN_ASSIGN_OR_RETURN(const auto selections, SelectAll<std::shared_ptr<const PreparedSearch>>(
                                                    collection->Now(), flags, queries.n(), &run));
  std::vector<WorkerOf<CollectionSearcher>> workers(static_cast<std::size_t>(run.threads));
  HMANN_RETURN_IF_ERROR(RunQueries(
      queries.n(),
      [&](int thread, std::uint64_t i, std::vector<Neighbor>* answer) {
        auto& worker = workers[static_cast<std::size_t>(thread)];
        const absl::Status status =
            worker.searcher.Search(queries.Row(i), *selections[selections.size() == 1 ? 0 : i],
                                   &worker.answer, &worker.counters);
        answer->swap(worker.answer.nearest);
        worker.cut_short += worker.answer.cut_short ? 1 : 0;
        return status;
      },
      &run));
  std::vector<std::uint64_t> labels;
  for (const std::vector<Neighbor>& answer : run.answers)
    for (const Neighbor& neighbor : answer) labels.push_back(neighbor.label);
  HMANN_ASSIGN_OR_RETURN(run.names, NamesOf(*collection, labels));
  return CountAndReport(workers, flags.query, &run);
}

absl::Status Search(const SearchFlags& flags) {
  HMANN_RETURN_IF_ERROR(CheckNotInput(flags.query.out, {flags.index, flags.filter_tags}));
  HMANN_ASSIGN_OR_RETURN(VectorFile queries,
                         VectorFile::Open(flags.query.queries, flags.query.rows));
  if (Collection::Is(flags.index)) return SearchCollection(flags, std::move(queries));
  const auto start = Clock::now();
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index,
                         Index::Open(flags.index, flags.open, &progress));
  const double open_seconds = SecondsSince(start);
  for (const std::string& warning : index->Warnings()) std::cerr << "warning: " << warning << '\n';
  HMANN_RETURN_IF_ERROR(queries.FitQueries(index->info().dim, index->info().dtype, "the index"));
  HMANN_RETURN_IF_ERROR(CheckFiles(flags.query, queries.n()));

  QueryRun run;
  run.open_seconds = open_seconds;
  run.metric = index->info().metric;
  run.n = index->info().n;
  run.in_flight = flags.in_flight;
  HMANN_ASSIGN_OR_RETURN(const std::vector<Selection> selections,
                         SelectAll<Selection>(*index, flags, queries.n(), &run));
  const auto params_of = [&](std::uint64_t i) -> const ResolvedParams& {
    return selections[selections.size() == 1 ? 0 : i].params;
  };
  run.simd = std::string(index->kernels().simd);
  run.threads = flags.query.threads;
  std::vector<Worker> workers;
  workers.reserve(static_cast<std::size_t>(run.threads));
  for (int thread = 0; thread < run.threads; ++thread) workers.push_back({Searcher(index)});
  if (queries.n() > 0) {
    Answer first;
    // An error of this query is reported when its turn comes.
    if (workers[0].searcher.Search(queries.Row(0), params_of(0), &first).ok())
      run.first_answer_seconds = SecondsSince(start);
  }
  if (!flags.cold) index->Warm(false);
  SearchLimits limits;
  limits.budget = flags.query.search.budget.value_or(limits.budget);
  const auto answer_one = [&](int thread, std::uint64_t i, std::vector<Neighbor>* answer) {
    Worker& worker = workers[thread];
    const absl::Status status = worker.searcher.Search(queries.Row(i), params_of(i), &worker.answer,
                                                       &worker.counters, limits);
    answer->swap(worker.answer.nearest);
    worker.cut_short += worker.answer.cut_short ? 1 : 0;
    return status;
  };
  if (run.in_flight > 1) {
    HMANN_RETURN_IF_ERROR(RunManyInFlight(queries, workers, limits, &run));
  } else {
    HMANN_RETURN_IF_ERROR(RunQueries(queries.n(), answer_one, &run));
  }
  return CountAndReport(workers, flags.query, &run);
}

}  // namespace

CommandAction SetupSearch(CLI::App& app) {
  auto flags = std::make_shared<SearchFlags>();
  app.add_option("INDEX", flags->index, "index file, or folder of a collection")->required();
  AddQueryFlags(app, &flags->query);
  AddOpenFlags(app, &flags->open);
  CLI::Option* tags = app.add_option("--filter-tags", flags->filter_tags,
                                     ".spmat file: the tags that answers to each query must all "
                                     "have")
                          ->excludes("--filter");
  app.add_option("--in-flight", flags->in_flight,
                 "queries in flight per thread: 4 pays off in DRAM, 8 and more on nvme")
      ->check(CLI::Range(1u, kMostInFlight))
      ->capture_default_str()
      ->excludes(tags);
  app.add_flag("--cold", flags->cold, "skip reading L0 once before the first query");
  return [flags] { return Search(*flags); };
}

}  // namespace hmann::tools
