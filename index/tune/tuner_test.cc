#include "index/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "hmann/dial_table.h"
#include "index/dials/effort.h"
#include "index/tune/effort_curve.h"
#include "index/tune/ladder.h"
#include "index/tune/testing/synthetic_index.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

TunerOptions Options(const SyntheticIndex& index, std::vector<double> recalls,
                     std::uint32_t k = 10) {
  return {.k = k,
          .recalls = std::move(recalls),
          .queries = index.queries,
          .context = SyntheticIndex::Context(),
          .most_query_threads = 2};
}

/// The least time of a dense grid without noise: every way and what lies within two steps
/// of it, at efforts 4 % apart.
double BestTime(const SyntheticIndex& index, double recall, std::uint32_t k) {
  const SearchContext context = SyntheticIndex::Context();
  std::vector<Dials> ways = WaysToSearch(k, context, 2);
  for (int step = 0; step < 2; ++step) {
    const std::vector<Dials> so_far = ways;
    for (const Dials& way : so_far) {
      for (const Dials& next : NextTo(way, context)) {
        if (std::find(ways.begin(), ways.end(), next) == ways.end()) ways.push_back(next);
      }
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (const Dials& way : ways) {
    for (double effort = 1.0 / 32; effort < 64; effort *= 1.04) {
      const Dials dials = WithEffort(way, effort, context.n, context.n1);
      if (index.MeanUs(dials) >= best) continue;
      if (index.Count(dials, index.queries).recall >= recall) best = index.MeanUs(dials);
    }
  }
  return best;
}

TEST(Ladder, HasEveryWalkAndIsWhatResolveMakes) {
  const SearchContext context = SyntheticIndex::Context();
  for (const std::uint32_t k : {1u, 10u, 100u}) {
    std::set<WalkKind> walks;
    std::set<std::string> distinct;
    for (const Dials& way : WaysToSearch(k, context, 2)) {
      walks.insert(way.walk);
      EXPECT_EQ(way.k, k);
      EXPECT_EQ(*OptionsOf(way).Resolve(context), way) << DescribeDials(way);
      EXPECT_TRUE(distinct.insert(DescribeDials(way)).second) << DescribeDials(way);
      for (const Dials& next : NextTo(way, context)) {
        EXPECT_EQ(next.walk, way.walk);
        EXPECT_FALSE(next == way);
        EXPECT_EQ(OptionsOf(next).Validate(context.n), absl::OkStatus()) << DescribeDials(next);
      }
    }
    EXPECT_EQ(walks.size(), kWalks);
    EXPECT_LE(distinct.size(), 30u);
    EXPECT_EQ(WaysToSearch(k, context, 2).front().walk, WalkKind::kUpper);
  }
}

TEST(Ladder, StaysWithinASmallIndexWithoutCodes) {
  for (const Dials& way : WaysToSearch(3, {.n = 40, .n1 = 5}, 1)) {
    EXPECT_NE(way.walk, WalkKind::kQuantised);
    EXPECT_LE(way.ef_l0, 40u);
    EXPECT_LE(way.ef_l1, 5u);
  }
  EXPECT_FALSE(WaysToSearch(1, {.n = 1, .n1 = 0}, 1).empty());
}

class Tuning : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Tuning, FindsWhatADenseGridWouldHaveShown) {
  SyntheticIndex index;
  index.slow_touch_ns = 300;
  const auto tuned = TuneDials(index.AsRuns(), Options(index, {0.95, 0.9, 0.99}, GetParam()));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_EQ(tuned->contests.size(), 3u);
  for (const Contest& contest : tuned->contests) {
    EXPECT_GT(contest.dropped, 0u) << "Equation 3.1 chooses";
    EXPECT_LT(contest.dropped, contest.settings);
    const auto found =
        std::find_if(tuned->front.begin(), tuned->front.end(),
                     [&](const auto& setting) { return setting.recall >= contest.recall; });
    ASSERT_NE(found, tuned->front.end());
    // Of one neighbour more recall costs no more time here.
    EXPECT_LT(found->recall, contest.recall + (GetParam() == 1 ? 0.04 : 0.006))
        << "no more than was asked for: " << DescribeDials(found->dials);
    EXPECT_LE(index.MeanUs(found->dials), 1.08 * BestTime(index, contest.recall, GetParam()))
        << contest.recall << DescribeDials(found->dials);
  }
  EXPECT_NEAR(tuned->same_again, 1, 0.05);
}

INSTANTIATE_TEST_SUITE_P(K, Tuning, ::testing::Values(1, 10));

TEST(TuneDials, OffersTheNearestWhereARecallCannotBeReached) {
  SyntheticIndex index;
  index.best_recall = 0.97;
  const auto tuned = TuneDials(index.AsRuns(), Options(index, {0.99}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->contests[0].settings, 0u);
  EXPECT_GT(tuned->contests[0].unable, 20u);
  EXPECT_TRUE(tuned->contests[0].upper_dropped);
  EXPECT_GT(tuned->front.back().recall, 0.96);
}

TEST(TuneDials, TheFrontRisesInTimeAndRecall) {
  const SyntheticIndex index;
  const auto tuned = TuneDials(index.AsRuns(), Options(index, {0.95}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_GT(tuned->front.size(), 5u);
  for (std::size_t i = 1; i < tuned->front.size(); ++i) {
    EXPECT_LT(tuned->front[i - 1].mean_us, tuned->front[i].mean_us);
    EXPECT_LT(tuned->front[i - 1].recall, tuned->front[i].recall);
  }
}

TEST(TuneDials, SaysHowFarASettingIsOffFromItself) {
  SyntheticIndex index;
  index.noise = 0.9;
  double worst = 0;
  for (const double recall : {0.9, 0.93, 0.95}) {
    const auto tuned = TuneDials(index.AsRuns(), Options(index, {recall}));
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    worst = std::max(worst, std::abs(tuned->same_again - 1));
  }
  EXPECT_GT(worst, 0.05);
}

TEST(TuneDials, RefusesWhatItCannotLearnFrom) {
  SyntheticIndex index;
  for (const double wrong : {1.5, -1.0, 0.0}) {
    EXPECT_EQ(TuneDials(index.AsRuns(), Options(index, {wrong})).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(TuneDials(index.AsRuns(), Options(index, {})).status().message(),
              HasSubstr("expected at least one"));
  index.queries = 0;
  EXPECT_THAT(TuneDials(index.AsRuns(), Options(index, {0.9})).status().message(),
              HasSubstr("learning queries: expected at least 1"));
}

TEST(TuneDials, LearnsFromASingleQuery) {
  SyntheticIndex index;
  index.queries = 1;
  const auto tuned = TuneDials(index.AsRuns(), Options(index, {0.9}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  // One answer proves nothing.
  EXPECT_LT(tuned->front.back().recall_low, 0.9 - RecallSlack(0.9));
}

TEST(TuneDials, PassesOnWhatARunSays) {
  const SyntheticIndex index;
  TuningRuns broken = index.AsRuns();
  broken.time = [](const Dials&, std::uint64_t, std::uint64_t) -> absl::StatusOr<Timed> {
    return absl::UnavailableError("the device is gone");
  };
  EXPECT_EQ(TuneDials(broken, Options(index, {0.9})).status().message(), "the device is gone");
}

}  // namespace
}  // namespace hmann
