#include "index/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "hmann/param_table.h"
#include "index/params/ef_scale.h"
#include "index/tune/ef_scale_curve.h"
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

/// The least time on a dense grid without noise: every setting and all within two steps
/// of it, at ef_scales 4 % apart.
double BestTime(const SyntheticIndex& index, double recall, std::uint32_t k) {
  const SearchContext context = SyntheticIndex::Context();
  std::vector<ResolvedParams> ways = WaysToSearch(k, context, 2);
  for (int step = 0; step < 2; ++step) {
    const std::vector<ResolvedParams> so_far = ways;
    for (const ResolvedParams& way : so_far) {
      for (const ResolvedParams& next : NextTo(way, context)) {
        if (std::find(ways.begin(), ways.end(), next) == ways.end()) ways.push_back(next);
      }
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (const ResolvedParams& way : ways) {
    for (double ef_scale = 1.0 / 32; ef_scale < 64; ef_scale *= 1.04) {
      const ResolvedParams params = WithEfScale(way, ef_scale, context.n, context.n1);
      if (index.MeanUs(params) >= best) continue;
      if (index.Count(params, index.queries).recall >= recall) best = index.MeanUs(params);
    }
  }
  return best;
}

TEST(Ladder, HasEveryWalkAndIsWhatResolveMakes) {
  const SearchContext context = SyntheticIndex::Context();
  for (const std::uint32_t k : {1u, 10u, 100u}) {
    std::set<SearchMode> modes;
    std::set<std::string> distinct;
    for (const ResolvedParams& way : WaysToSearch(k, context, 2)) {
      modes.insert(way.mode);
      EXPECT_EQ(way.k, k);
      EXPECT_EQ(*ParamsOf(way).Resolve(context), way) << DescribeParams(way);
      EXPECT_TRUE(distinct.insert(DescribeParams(way)).second) << DescribeParams(way);
      for (const ResolvedParams& next : NextTo(way, context)) {
        EXPECT_EQ(next.mode, way.mode);
        EXPECT_FALSE(next == way);
        EXPECT_EQ(ParamsOf(next).Validate(context.n), absl::OkStatus()) << DescribeParams(next);
      }
    }
    EXPECT_EQ(modes.size(), kModes - 1) << "all but the scan";
    EXPECT_LE(distinct.size(), 30u);
    EXPECT_EQ(WaysToSearch(k, context, 2).front(), *SearchParams{.k = k}.Resolve(context));
  }
}

TEST(Ladder, StaysWithinASmallIndexWithoutCodes) {
  for (const ResolvedParams& way : WaysToSearch(3, {.n = 40, .n1 = 5}, 1)) {
    EXPECT_NE(way.mode, SearchMode::kQuantized);
    EXPECT_LE(way.ef_l0, 40u);
    EXPECT_LE(way.ef_l1, 5u);
  }
  EXPECT_FALSE(WaysToSearch(1, {.n = 1, .n1 = 0}, 1).empty());
}

class Tuning : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Tuning, FindsWhatADenseGridWouldHaveShown) {
  SyntheticIndex index;
  index.slow_touch_ns = 300;
  const auto tuned = TuneParams(index.AsRuns(), Options(index, {0.95, 0.9, 0.99}, GetParam()));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_EQ(tuned->comparisons.size(), 3u);
  for (const Comparison& comparison : tuned->comparisons) {
    EXPECT_GT(comparison.dropped, 0u) << "Equation 3.1 chooses";
    EXPECT_LT(comparison.dropped, comparison.settings);
    const auto found =
        std::find_if(tuned->front.begin(), tuned->front.end(),
                     [&](const auto& setting) { return setting.recall >= comparison.recall; });
    ASSERT_NE(found, tuned->front.end());
    // For one neighbor more recall costs no more time here.
    EXPECT_LT(found->recall, comparison.recall + (GetParam() == 1 ? 0.04 : 0.006))
        << "no more than was asked for: " << DescribeParams(found->params);
    EXPECT_LE(index.MeanUs(found->params), 1.08 * BestTime(index, comparison.recall, GetParam()))
        << comparison.recall << DescribeParams(found->params);
  }
  EXPECT_NEAR(tuned->same_again, 1, 0.05);
}

INSTANTIATE_TEST_SUITE_P(K, Tuning, ::testing::Values(1, 10));

TEST(TuneParams, OffersTheNearestWhereARecallCannotBeReached) {
  SyntheticIndex index;
  index.best_recall = 0.97;
  const auto tuned = TuneParams(index.AsRuns(), Options(index, {0.99}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->comparisons[0].settings, 0u);
  EXPECT_GT(tuned->comparisons[0].unable, 20u);
  EXPECT_TRUE(tuned->comparisons[0].upper_dropped);
  EXPECT_GT(tuned->front.back().recall, 0.96);
}

TEST(TuneParams, TheFrontRisesInTimeAndRecall) {
  const SyntheticIndex index;
  const auto tuned = TuneParams(index.AsRuns(), Options(index, {0.95}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_GT(tuned->front.size(), 5u);
  for (std::size_t i = 1; i < tuned->front.size(); ++i) {
    EXPECT_LT(tuned->front[i - 1].mean_us, tuned->front[i].mean_us);
    EXPECT_LT(tuned->front[i - 1].recall, tuned->front[i].recall);
  }
}

TEST(TuneParams, SaysHowFarASettingIsOffFromItself) {
  SyntheticIndex index;
  index.noise = 0.9;
  double worst = 0;
  for (const double recall : {0.9, 0.93, 0.95}) {
    const auto tuned = TuneParams(index.AsRuns(), Options(index, {recall}));
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    worst = std::max(worst, std::abs(tuned->same_again - 1));
  }
  EXPECT_GT(worst, 0.05);
}

TEST(TuneParams, RefusesWhatItCannotLearnFrom) {
  SyntheticIndex index;
  for (const double wrong : {1.5, -1.0, 0.0}) {
    EXPECT_EQ(TuneParams(index.AsRuns(), Options(index, {wrong})).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(TuneParams(index.AsRuns(), Options(index, {})).status().message(),
              HasSubstr("expected at least one"));
  index.queries = 0;
  EXPECT_THAT(TuneParams(index.AsRuns(), Options(index, {0.9})).status().message(),
              HasSubstr("learning queries: expected at least 1"));
}

TEST(TuneParams, LearnsFromASingleQuery) {
  SyntheticIndex index;
  index.queries = 1;
  const auto tuned = TuneParams(index.AsRuns(), Options(index, {0.9}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  // One answer proves nothing.
  EXPECT_LT(tuned->front.back().recall_low, 0.9 - RecallSlack(0.9));
}

TEST(TuneParams, PassesOnWhatARunSays) {
  const SyntheticIndex index;
  TuningRuns broken = index.AsRuns();
  broken.time = [](const ResolvedParams&, std::uint64_t, std::uint64_t) -> absl::StatusOr<Timed> {
    return absl::UnavailableError("the device is gone");
  };
  EXPECT_EQ(TuneParams(broken, Options(index, {0.9})).status().message(), "the device is gone");
}

}  // namespace
}  // namespace hmann
