/// A time budget: however a search ends, it returns an answer and says that it was cut
/// short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

constexpr std::uint64_t kQueries = 12;
constexpr std::chrono::nanoseconds kNothing{1}, kPlenty = std::chrono::hours(1);

struct Made {
  Made() {
    BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 1500, 24);
    options.promote = 0.1;
    MustBuild(options);
    path = options.out;
    queries = *VectorFile::Open(options.base);
  }
  SampleFolder folder;
  std::string path;
  VectorFile queries;
};

struct Answered {
  std::vector<std::vector<Neighbor>> nearest = std::vector<std::vector<Neighbor>>(kQueries);
  std::size_t cut_short = 0;
};

const std::vector<SearchParams>& EveryMode() {
  static const std::vector<SearchParams> params = {
      {.k = 10, .ef_l1 = 16, .ef_l0 = 100, .mode = SearchMode::kGraph},
      {.k = 10, .ef_l1 = 60, .ef_l0 = 3, .mode = SearchMode::kMultiStart},
      {.k = 10, .ef_l1 = 60, .ef_l0 = 3, .mode = SearchMode::kMultiStart, .query_threads = 2},
      {.k = 10,
       .ef_l1 = 16,
       .ef_l0 = 100,
       .mode = SearchMode::kQuantized,
       .nprobe = 0,
       .beam_width = 2},
      {.k = 10,
       .ef_l1 = 16,
       .ef_l0 = 0,
       .mode = SearchMode::kQuantized,
       .nprobe = 30,
       .beam_width = 2},
      {.k = 10, .ef_l1 = 20, .mode = SearchMode::kUpper},
      {.k = 400, .ef_l1 = 4, .mode = SearchMode::kUpper},  // more than L1 holds
  };
  return params;
}

class Searches : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { made_ = new Made; }
  static void TearDownTestSuite() { delete made_; }

  static std::shared_ptr<const Index> Open(const std::string& slow) {
    OpenOptions options;
    options.slow = slow;
    return *Index::Open(made_->path, options);
  }

  static Answered Search(const Index& index, Searcher& searcher, const SearchParams& options,
                         std::chrono::nanoseconds budget, std::uint32_t in_flight) {
    const absl::StatusOr<ResolvedSearch> resolved = index.Resolve(options);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    SearchLimits limits;
    limits.budget = budget;
    Answered answered;
    const absl::Status status = searcher.SearchMany(
        kQueries, [](std::size_t i) { return made_->queries.Row(i * 37); }, resolved->params,
        in_flight,
        [&](std::size_t i, const absl::Status& outcome, Answer& answer) {
          EXPECT_TRUE(outcome.ok()) << outcome;
          answered.nearest[i] = answer.nearest;
          answered.cut_short += answer.cut_short ? 1 : 0;
        },
        nullptr, limits);
    EXPECT_TRUE(status.ok()) << status;
    return answered;
  }

  static void ExpectSame(const Answered& found, const Answered& expected) {
    for (std::size_t query = 0; query < kQueries; ++query) {
      ASSERT_EQ(found.nearest[query].size(), expected.nearest[query].size());
      for (std::size_t i = 0; i < found.nearest[query].size(); ++i) {
        ASSERT_EQ(found.nearest[query][i].label, expected.nearest[query][i].label);
      }
    }
  }

  /// Expects one to k distinct neighbors, nearest first, with correct distances.
  static void ExpectAnAnswer(const std::vector<Neighbor>& answer, std::uint64_t query,
                             std::uint32_t k) {
    ASSERT_GE(answer.size(), 1u);
    ASSERT_LE(answer.size(), k);
    std::map<std::uint64_t, float> seen;
    float before = 0;
    for (const Neighbor& neighbor : answer) {
      EXPECT_TRUE(seen.emplace(neighbor.label, neighbor.distance).second) << "twice";
      EXPECT_GE(neighbor.distance, before);
      before = neighbor.distance;
      float exact = 0;
      for (std::size_t i = 0; i < 24; ++i) {
        const float gap = static_cast<float>(made_->queries.Row(query * 37)[i]) -
                          static_cast<float>(made_->queries.Row(neighbor.label)[i]);
        exact += gap * gap;
      }
      EXPECT_EQ(neighbor.distance, exact);
    }
  }

  static inline Made* made_ = nullptr;
};

class Budget : public Searches, public ::testing::WithParamInterface<std::string> {};
using StalledDevice = Searches;

TEST_P(Budget, PlentyChangesNothing) {
  const auto index = Open(GetParam());
  Searcher searcher(index);
  for (const SearchParams& options : EveryMode()) {
    for (const std::uint32_t in_flight : {1u, 4u}) {
      const Answered free =
          Search(*index, searcher, options, std::chrono::nanoseconds(0), in_flight);
      const Answered bounded = Search(*index, searcher, options, kPlenty, in_flight);
      EXPECT_EQ(free.cut_short, 0u);
      EXPECT_EQ(bounded.cut_short, 0u);
      ExpectSame(bounded, free);
    }
  }
}

TEST_P(Budget, NothingStillGivesAnAnswerThatSaysSo) {
  const auto index = Open(GetParam());
  Searcher searcher(index);
  for (const SearchParams& options : EveryMode()) {
    for (const std::uint32_t in_flight : {1u, 4u}) {
      const Answered before =
          Search(*index, searcher, options, std::chrono::nanoseconds(0), in_flight);
      const Answered cut = Search(*index, searcher, options, kNothing, in_flight);
      for (std::size_t query = 0; query < kQueries; ++query)
        ExpectAnAnswer(cut.nearest[query], query, options.k);
      // In memory, a search of a few steps may be over before the clock is read.
      if (options.ef_l0 != 0u && options.mode != SearchMode::kUpper) {
        EXPECT_EQ(cut.cut_short, kQueries) << Name(*options.mode);
      }
      ExpectSame(Search(*index, searcher, options, std::chrono::nanoseconds(0), in_flight), before);
    }
  }
}

TEST_P(Budget, AnyLengthGivesAnAnswer) {
  const auto index = Open(GetParam());
  Searcher searcher(index);
  for (const SearchParams& options : EveryMode()) {
    for (std::int64_t us = 1; us <= 4096; us *= 2) {
      const Answered answered = Search(*index, searcher, options, std::chrono::microseconds(us), 3);
      for (std::size_t query = 0; query < kQueries; ++query)
        ExpectAnAnswer(answered.nearest[query], query, options.k);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, Budget,
                         ::testing::Values("dram", "mapped", "emulated:lat=300ns", "nvme",
                                           "delay:200us+nvme"),
                         [](const auto& tier) {
                           std::string name = tier.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

/// A device that stops answering: the budget ends the queries that wait for it.
TEST_F(StalledDevice, EndsWithTheBestSoFar) {
  for (const SearchParams& options : EveryMode()) {
    if (options.ef_l0 == 0u || options.mode == SearchMode::kUpper) continue;
    const auto index = Open("stall:after=10+nvme");
    Searcher searcher(index);
    const Answered answered = Search(*index, searcher, options, std::chrono::milliseconds(20), 1);
    for (std::size_t query = 0; query < kQueries; ++query)
      ExpectAnAnswer(answered.nearest[query], query, options.k);
    EXPECT_GE(answered.cut_short, kQueries - 1) << Name(*options.mode);
  }
}

}  // namespace
}  // namespace hmann
