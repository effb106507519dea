#include "index/search/memory_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <set>

#include "index/search/testing/executor_answers.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

TEST(MemoryExecutor, AnswersDoNotDependOnTimingCountersOrPastQueries) {
  const RandomIndex index({.n = 2000, .n1 = 300, .m = 6, .dim = 8});
  ParamsExecutor used(index.placed());
  for (std::uint64_t query = 0; query < 100; ++query) {
    SearchParams options{.k = 10, .ef_l1 = 12, .ef_l0 = 3, .mode = SearchMode::kMultiStart};
    for (const std::uint32_t threads : {2u, 8u, 1u, 4u, 64u}) {
      SCOPED_TRACE(absl::StrCat(threads, " threads"));
      options.query_threads = threads;
      ParamsExecutor fresh(index.placed());
      const ExecutorAnswer once = MustSearch(fresh, index.Query(query), options),
                           again = MustSearch(used, index.Query(query), options);
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(again.nearest, once.nearest));
      for (const CounterName& counter : CounterNames())
        EXPECT_EQ(again.counters.*counter.value, once.counters.*counter.value) << counter.name;
      std::vector<Neighbor> uncounted;
      ASSERT_TRUE(used.Search(index.Query(query).data(), options, &uncounted, nullptr, {}).ok());
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(uncounted, once.nearest));
    }
    // A wide pool in between leaves more state behind than any of these.
    MustSearch(used, index.Query(query + 500),
               {.k = 200, .ef_l1 = 300, .ef_l0 = 900, .mode = SearchMode::kGraph});
  }
}

TEST(MemoryExecutor, CountersAreAddedTo) {
  const RandomIndex index({});
  ParamsExecutor runner(index.placed());
  const SearchParams options{.k = 5, .ef_l1 = 8, .ef_l0 = 8};
  const Counters once = MustSearch(runner, index.Query(1), options).counters;
  Counters twice;
  std::vector<Neighbor> nearest;
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(runner.Search(index.Query(1).data(), options, &nearest, &twice, {}).ok());
  EXPECT_GT(once.node_reads, 0u);
  EXPECT_EQ(twice.node_reads, 2 * once.node_reads);
  EXPECT_EQ(twice.distances_fast, 2 * once.distances_fast);
}

TEST(MemoryExecutor, EfL0OfZeroIsL1sOwnAnswer) {
  const RandomIndex index({.n = 500, .n1 = 100, .m = 4, .dim = 6});
  ParamsExecutor runner(index.placed());
  for (std::uint64_t query = 0; query < 20; ++query) {
    // A beam as wide as L1 measures all of it: the answer is the nearest promoted nodes.
    const ExecutorAnswer found =
        MustSearch(runner, index.Query(query), {.k = 10, .ef_l1 = 100, .mode = SearchMode::kUpper});
    std::vector<std::byte> stored(index.placed().kernels.row_bytes);
    ASSERT_TRUE(EncodeRow(index.placed().kernels, index.Query(query).data(), stored.data()).ok());
    std::vector<Candidate> all;
    for (NodeId id = 0; id < 100; ++id)
      all.push_back({index.placed().kernels.one(stored.data(), index.Row(id), 6), id});
    std::sort(all.begin(), all.end());
    std::vector<std::uint64_t> expected;
    for (int i = 0; i < 10; ++i) expected.push_back(index.Label(all[i].id));
    EXPECT_EQ(Labels(found.nearest), expected);
    EXPECT_EQ(found.counters.node_accesses, 0u) << "not even for the labels";
    EXPECT_EQ(found.counters.distances_slow, 0u);
  }
}

TEST(MemoryExecutor, KOfNGivesEveryLabelOnceInOrder) {
  for (const NodeId n1 : {0u, 1u, 60u}) {
    for (const bool in_pieces : {false, true}) {
      const RandomIndex index({.n = 300, .n1 = n1, .user_labels = true, .l1_in_pieces = in_pieces});
      ParamsExecutor runner(index.placed());
      for (const std::optional<SearchMode> mode :
           {std::optional<SearchMode>(), std::optional(SearchMode::kMultiStart),
            std::optional(SearchMode::kGraph)}) {
        for (const std::optional<std::uint32_t> ef_l0 :
             {std::optional<std::uint32_t>(), {1u}, {50u}}) {
          SCOPED_TRACE(absl::StrCat("n1 ", n1, ", mode ",
                                    mode.has_value() ? static_cast<int>(*mode) : -1, ", ef_l0 ",
                                    ef_l0.value_or(99)));
          const ExecutorAnswer found =
              MustSearch(runner, index.Query(3), {.k = 300, .ef_l0 = ef_l0, .mode = mode});
          std::set<std::uint64_t> labels;
          for (const Neighbor& neighbor : found.nearest) labels.insert(neighbor.label);
          EXPECT_EQ(found.nearest.size(), 300u);
          EXPECT_EQ(labels.size(), 300u);
          EXPECT_TRUE(std::is_sorted(
              found.nearest.begin(), found.nearest.end(),
              [](const Neighbor& a, const Neighbor& b) { return a.distance < b.distance; }));
        }
      }
    }
  }
}

TEST(MemoryExecutor, KIsAlwaysFilled) {
  const RandomIndex index({.n = 400, .n1 = 50, .m = 3});
  ParamsExecutor runner(index.placed());
  for (const SearchMode mode : {SearchMode::kMultiStart, SearchMode::kGraph}) {
    for (const std::uint32_t k : {2u, 49u, 50u, 51u, 200u, 399u}) {
      for (const std::uint32_t ef_l0 : {1u, 2u}) {
        EXPECT_EQ(
            MustSearch(runner, index.Query(k), {.k = k, .ef_l1 = 1, .ef_l0 = ef_l0, .mode = mode})
                .nearest.size(),
            k);
      }
      EXPECT_EQ(MustSearch(runner, index.Query(k), {.k = k, .ef_l1 = 1, .mode = SearchMode::kUpper})
                    .nearest.size(),
                k);
    }
  }
}

TEST(MemoryExecutor, WrongQueriesHaveNamedErrors) {
  const RandomIndex index({.dim = 3, .dtype = DType::kF32, .metric = Metric::kCosine});
  ParamsExecutor runner(index.placed());
  const float good[] = {1, 2, 3}, zero[] = {0, 0, 0},
              nan[] = {1, std::numeric_limits<float>::quiet_NaN(), 0};
  std::vector<Neighbor> nearest = {{42, 1.0f}};
  const auto error = [&](const float* query, const SearchParams& options) {
    const absl::Status status = runner.Search(query, options, &nearest, nullptr, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(nearest.size(), 1u) << "nothing is answered";
    return std::string(status.message());
  };
  EXPECT_THAT(error(good, {.k = 0}), HasSubstr("k: expected at least 1"));
  EXPECT_THAT(error(good, {.k = 301}), HasSubstr("k: expected at most the 300 vectors"));
  EXPECT_THAT(error(good, {.ef_l1 = kMaxEf + 1}), HasSubstr("ef_l1"));
  EXPECT_THAT(error(good, {.ef_l0 = kMaxEf + 1}), HasSubstr("ef_l0"));
  EXPECT_THAT(error(good, {.ef_l0 = -2}), HasSubstr("ef_l0"));
  EXPECT_THAT(error(good, {.query_threads = 0}), HasSubstr("query_threads"));
  EXPECT_THAT(error(good, {.query_threads = 65}), HasSubstr("query_threads"));
  EXPECT_THAT(error(zero, {}), HasSubstr("zero vector"));
  EXPECT_THAT(error(nan, {}), HasSubstr("component 1"));
  EXPECT_TRUE(runner.Search(good, {}, &nearest, nullptr, {}).ok());
  EXPECT_EQ(nearest.size(), 10u);
}

TEST(MemoryExecutor, ADeadlineOrACancellationEndsAQueryAndNotTheRunner) {
  const RandomIndex index({.n = 3000, .n1 = 500, .m = 8, .dim = 60});
  ParamsExecutor runner(index.placed());
  std::atomic<bool> cancelled{false};
  std::vector<Neighbor> nearest;
  for (const SearchParams& options :
       {SearchParams{.k = 10, .ef_l1 = 500, .ef_l0 = 3000, .mode = SearchMode::kGraph},
        SearchParams{.k = 10, .ef_l1 = 500, .ef_l0 = 100, .mode = SearchMode::kMultiStart},
        SearchParams{.k = 10,
        .ef_l1 = 500,
        .ef_l0 = 100,
        .mode = SearchMode::kMultiStart,
        .query_threads = 3}}) {
    const ExecutorAnswer before = MustSearch(runner, index.Query(1), options);
    const auto now = std::chrono::steady_clock::now();
    EXPECT_EQ(runner
                  .Search(index.Query(1).data(), options, &nearest, nullptr,
                          {.deadline = now - std::chrono::seconds(1)})
                  .code(),
              absl::StatusCode::kDeadlineExceeded);
    // Thousands of distances take longer than this on any machine; on a slow one the
    // deadline has passed at the start.
    const auto soon = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    EXPECT_EQ(
        runner.Search(index.Query(1).data(), options, &nearest, nullptr, {.deadline = soon}).code(),
        absl::StatusCode::kDeadlineExceeded);
    cancelled = true;
    EXPECT_EQ(
        runner.Search(index.Query(1).data(), options, &nearest, nullptr, {.cancelled = &cancelled})
            .code(),
        absl::StatusCode::kCancelled);
    cancelled = false;
    const ExecutorAnswer after = MustSearch(runner, index.Query(1), options);
    ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(after.nearest, before.nearest));
    EXPECT_EQ(after.counters.node_reads, before.counters.node_reads);
    // Limits that are not reached change nothing.
    ExecutorAnswer limited;
    ASSERT_TRUE(runner
                    .Search(index.Query(1).data(), options, &limited.nearest, &limited.counters,
                            {.deadline = now + std::chrono::hours(1), .cancelled = &cancelled})
                    .ok());
    ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(limited.nearest, before.nearest));
    EXPECT_EQ(limited.counters.expanded_l1, before.counters.expanded_l1);
    EXPECT_EQ(limited.counters.expanded_l0, before.counters.expanded_l0);
  }
}

/// Runs queries 0 .. n - 1 through SearchMany; each is requested and answered exactly
/// once.
std::vector<ExecutorAnswer> SearchTogether(ParamsExecutor& runner,
                                           const std::vector<std::vector<std::byte>>& queries,
                                           const SearchParams& options, std::uint32_t in_flight,
                                           Counters* counters) {
  std::vector<ExecutorAnswer> results(queries.size());
  std::vector<int> begun(queries.size()), ended(queries.size());
  std::size_t open = 0, most_open = 0;
  const absl::Status status = runner.SearchMany(
      queries.size(),
      [&](std::size_t i) {
        ++begun[i];
        most_open = std::max(most_open, ++open);
        return queries[i].data();
      },
      options, in_flight,
      [&](std::size_t i, const absl::Status& done, Answer& answer) {
        EXPECT_TRUE(done.ok()) << done;
        ++ended[i];
        --open;
        results[i].nearest.swap(answer.nearest);
      },
      counters, {});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(begun, ::testing::Each(1));
  EXPECT_THAT(ended, ::testing::Each(1));
  EXPECT_EQ(most_open, std::min<std::size_t>(in_flight, queries.size()));
  return results;
}

TEST(MemoryExecutor, QueriesInFlightTogetherAnswerAndCountAsAlone) {
  const RandomIndex index({.n = 700, .n1 = 90, .m = 5, .dim = 12});
  ParamsExecutor alone(index.placed()), together(index.placed());
  std::vector<std::vector<std::byte>> queries;
  for (std::uint64_t i = 0; i < 41; ++i) queries.push_back(index.Query(i));
  for (const SearchParams& options :
       {SearchParams{.k = 10, .ef_l1 = 4, .ef_l0 = 30, .mode = SearchMode::kGraph},
        SearchParams{.k = 120, .ef_l1 = 20, .ef_l0 = 5, .mode = SearchMode::kGraph},
        SearchParams{.k = 10, .ef_l1 = 40, .mode = SearchMode::kUpper},
        SearchParams{.k = 10, .ef_l1 = 20, .ef_l0 = 3, .mode = SearchMode::kMultiStart},
        SearchParams{.k = 10,
        .ef_l1 = 20,
        .ef_l0 = 3,
        .mode = SearchMode::kMultiStart,
        .query_threads = 2}}) {
    for (const std::uint32_t in_flight : {1u, 2u, 4u, 64u}) {
      SCOPED_TRACE(absl::StrCat("k ", options.k, ", in flight ", in_flight));
      Counters expected, counted;
      const std::vector<ExecutorAnswer> found =
          SearchTogether(together, queries, options, in_flight, &counted);
      const std::vector<ExecutorAnswer> uncounted =
          SearchTogether(together, queries, options, in_flight, nullptr);
      for (std::size_t i = 0; i < queries.size(); ++i) {
        const ExecutorAnswer single = MustSearch(alone, queries[i], options);
        ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(found[i].nearest, single.nearest));
        ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(uncounted[i].nearest, single.nearest));
        expected += single.counters;
      }
      for (const CounterName& counter : CounterNames())
        EXPECT_EQ(counted.*counter.value, expected.*counter.value) << counter.name;
    }
  }
}

TEST(MemoryExecutor, AWrongQueryAmongManyIsNamedAndTheOthersAreAnswered) {
  const RandomIndex index({.n = 300, .n1 = 40, .m = 4, .dim = 6, .dtype = DType::kF32});
  ParamsExecutor runner(index.placed());
  std::vector<std::vector<std::byte>> queries;
  for (std::uint64_t i = 0; i < 9; ++i) queries.push_back(index.Query(i));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{5}, std::size_t{8}})
    std::memcpy(queries[wrong].data(), &nan, sizeof(nan));
  std::vector<absl::StatusCode> codes(queries.size(), absl::StatusCode::kUnknown);
  ASSERT_TRUE(runner
                  .SearchMany(
                      queries.size(), [&](std::size_t i) { return queries[i].data(); }, {.k = 3}, 4,
                      [&](std::size_t i, const absl::Status& done, Answer& answer) {
                        codes[i] = done.code();
                        EXPECT_EQ(answer.nearest.size(), done.ok() ? 3u : 0u);
                      },
                      nullptr, {})
                  .ok());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(codes[i],
              i % 5 == 0 || i == 8 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk)
        << "query " << i;
  }
}

TEST(MemoryExecutor, DistinctReadsAreCountedWhenAskedFor) {
  const RandomIndex index({.n = 300, .n1 = 40, .m = 4, .dim = 6});
  ParamsExecutor runner(index.placed());
  const auto query = index.Query(1);
  const auto search = [&](bool distinct) {
    Counters work;
    const absl::Status status = runner.SearchMany(
        1, [&](std::size_t) { return query.data(); }, {.k = 3}, 1,
        [](std::size_t, const absl::Status& done, Answer&) { EXPECT_TRUE(done.ok()); }, &work,
        {.distinct_reads = distinct});
    EXPECT_TRUE(status.ok());
    return work;
  };
  const Counters with = search(true), without = search(false);
  EXPECT_GT(with.node_reads, 0u);
  EXPECT_GT(with.node_bytes, 0u);
  EXPECT_EQ(without.node_reads, 0u);
  EXPECT_EQ(without.node_bytes, 0u);
  EXPECT_EQ(without.node_accesses, with.node_accesses);
}

TEST(MemoryExecutor, ADeadlineEndsAllThatAreInFlightAndNotTheRunner) {
  const RandomIndex index({.n = 3000, .n1 = 500, .m = 8, .dim = 60});
  ParamsExecutor runner(index.placed());
  std::vector<std::vector<std::byte>> queries;
  for (std::uint64_t i = 0; i < 12; ++i) queries.push_back(index.Query(i));
  const SearchParams options{.k = 10, .ef_l1 = 500, .ef_l0 = 3000, .mode = SearchMode::kGraph};
  const ExecutorAnswer before = MustSearch(runner, queries[1], options);
  std::vector<int> ended(queries.size());
  std::atomic<bool> cancelled{false};
  int given_up = 0;
  ASSERT_TRUE(runner
                  .SearchMany(
                      queries.size(), [&](std::size_t i) { return queries[i].data(); }, options, 4,
                      [&](std::size_t i, const absl::Status& done, Answer&) {
                        ++ended[i];
                        // The first answer cancels the others, except those that end
                        // before the next check of the limits.
                        EXPECT_TRUE(done.ok() || absl::IsCancelled(done)) << done;
                        given_up += done.ok() ? 0 : 1;
                        cancelled = true;
                      },
                      nullptr, {.cancelled = &cancelled})
                  .ok());
  EXPECT_THAT(ended, ::testing::Each(1));
  EXPECT_GE(given_up, 6);
  ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(
      SearchTogether(runner, queries, options, 3, nullptr)[1].nearest, before.nearest));
}

TEST(MemoryExecutor, DamagedLinksNeverCrashASearch) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomIndex index({.n = 200, .n1 = 40, .m = 3, .dim = 4, .seed = seed});
    std::uint64_t counter = 0;
    index.Damage([&](std::byte* bytes, std::size_t size) {
      const std::uint64_t every =
          1 + RandomBelow(seed, counter++, 200);  // from all of it down to a few
      for (std::size_t i = 0; i < size; i += 1 + RandomBelow(seed, counter++, every))
        bytes[i] = static_cast<std::byte>(Random(seed, counter++));
    });
    ParamsExecutor runner(index.placed());
    for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart}) {
      for (const std::uint32_t k : {1u, 10u, 100u, 200u}) {
        for (const std::uint32_t ef_l0 : {1u, 2u, 50u}) {
          EXPECT_LE(MustSearch(runner, index.Query(k),
                               {.k = k, .ef_l1 = 10, .ef_l0 = ef_l0, .mode = mode})
                        .nearest.size(),
                    k);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hmann
