#include "index/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "index/dials/dial_table.h"
#include "index/tune/check_tuned.h"
#include "index/tune/dial_grid.h"
#include "index/tune/testing/synthetic_index.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

std::vector<Dials> Grid(std::uint32_t k) {
  return DialGrid({.k = k, .context = SyntheticIndex::Context(), .most_query_threads = 2});
}

TunerOptions Options(const SyntheticIndex& index, std::vector<Target> targets) {
  TunerOptions options;
  options.targets = std::move(targets);
  options.queries = index.queries;
  return options;
}

std::size_t SettingsRun(const Tuned& tuned) {
  std::size_t run = 0;
  for (const TriedSetting& tried : tuned.settings) run += tried.measured.queries > 0 ? 1 : 0;
  return run;
}

/// The least mean time of the whole grid, without noise, among what reaches `recall`.
double BestTime(const SyntheticIndex& index, const std::vector<Dials>& grid, double recall) {
  double best = std::numeric_limits<double>::infinity();
  for (const Dials& dials : grid) {
    if (index.MeanRecall(dials) >= recall) best = std::min(best, index.MeanUs(dials));
  }
  return best;
}

TEST(DialGrid, CoversAllWalksWithDistinctSettingsThatAreValid) {
  for (const std::uint32_t k : {1u, 10u, 100u}) {
    const std::vector<Dials> grid = Grid(k);
    std::array<std::size_t, kDialFamilies> families{};
    std::set<std::string> distinct;
    for (const Dials& dials : grid) {
      ++families[DialFamily(dials)];
      EXPECT_EQ(dials.k, k);
      EXPECT_EQ(OptionsOf(dials).Validate(1000000), absl::OkStatus()) << DescribeDials(dials);
      EXPECT_EQ(*OptionsOf(dials).Resolve(SyntheticIndex::Context()), dials) << "resolved";
      EXPECT_TRUE(distinct.insert(DescribeDials(dials)).second) << DescribeDials(dials);
    }
    EXPECT_GT(grid.size(), 500u);
    for (const std::size_t family : {0, 1, 2, 3, 4})
      EXPECT_GT(families[family], 30u) << "k " << k << ", family " << family;
  }
}

TEST(DialGrid, StaysWithinASmallIndexWithoutCodes) {
  for (const Dials& dials :
       DialGrid({.k = 3, .context = {.n = 40, .n1 = 5}, .most_query_threads = 1})) {
    EXPECT_NE(dials.walk, WalkKind::kQuantised);
    EXPECT_LE(dials.ef_l0, 40u);
    EXPECT_LE(dials.ef_l1, 5u);
  }
  EXPECT_FALSE(DialGrid({.k = 1, .context = {.n = 1, .n1 = 0}, .most_query_threads = 1}).empty());
}

class Tuning : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Tuning, FindsWithAFifthOfTheGridWhatTheWholeGridWouldHaveShown) {
  SyntheticIndex index;
  index.slow_touch_ns = 300;
  const std::vector<Dials> grid = Grid(GetParam());
  const auto tuned =
      TuneDials(grid, index.AsMeasure(),
                Options(index, {{.recall = 0.9}, {.recall = 0.95}, {.recall = 0.99}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_LE(SettingsRun(*tuned), grid.size() / 5);
  ASSERT_EQ(tuned->choices.size(), 3u);
  for (const Choice& choice : tuned->choices) {
    const Dials& dials = tuned->settings[choice.setting].dials;
    EXPECT_TRUE(choice.met);
    EXPECT_GE(index.MeanRecall(dials), choice.target.recall - 0.001);
    EXPECT_LE(index.MeanUs(dials), 1.05 * BestTime(index, grid, choice.target.recall))
        << choice.target.recall << DescribeDials(dials);
  }
}

TEST_P(Tuning, KeepsALatencyAndTakesTheBestRecallWithinIt) {
  const SyntheticIndex index;
  const std::vector<Dials> grid = Grid(GetParam());
  const auto tuned =
      TuneDials(grid, index.AsMeasure(), Options(index, {{.latency_us = 60}, {.latency_us = 200}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  for (const Choice& choice : tuned->choices) {
    const Dials& dials = tuned->settings[choice.setting].dials;
    double best = 0;
    for (const Dials& other : grid) {
      if (index.MeanUs(other) <= choice.target.latency_us)
        best = std::max(best, index.MeanRecall(other));
    }
    EXPECT_EQ(choice.met, best > 0);
    EXPECT_LE(index.MeanUs(dials), choice.target.latency_us * 1.02) << DescribeDials(dials);
    EXPECT_GE(index.MeanRecall(dials), best - 0.005) << DescribeDials(dials);
  }
}

INSTANTIATE_TEST_SUITE_P(K, Tuning, ::testing::Values(1, 10));

TEST(TuneDials, SaysThatATargetCannotBeMetAndOffersTheBest) {
  SyntheticIndex index;
  index.best_recall = 0.97;
  const auto tuned = TuneDials(Grid(10), index.AsMeasure(),
                               Options(index, {{.recall = 0.99}, {.latency_us = 0.5}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_FALSE(tuned->choices[0].met);
  EXPECT_GT(tuned->settings[tuned->choices[0].setting].measured.recall, 0.96);
  EXPECT_FALSE(tuned->choices[1].met);
  EXPECT_LT(tuned->settings[tuned->choices[1].setting].measured.mean_us, 40);
}

TEST(TuneDials, TheFrontRisesInTimeAndRecall) {
  const SyntheticIndex index;
  const auto tuned = TuneDials(Grid(10), index.AsMeasure(), Options(index, {{.recall = 0.95}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_GT(tuned->front.size(), 5u);
  for (std::size_t i = 1; i < tuned->front.size(); ++i) {
    const Measurement& before = tuned->settings[tuned->front[i - 1]].measured;
    const Measurement& after = tuned->settings[tuned->front[i]].measured;
    EXPECT_LT(before.mean_us, after.mean_us);
    EXPECT_LT(before.recall, after.recall);
    EXPECT_EQ(after.queries, index.queries);
  }
}

TEST(TuneDials, RefusesWhatItCannotLearnFrom) {
  const SyntheticIndex index;
  TunerOptions options = Options(index, {{.recall = 0.95}});
  EXPECT_EQ(TuneDials({}, index.AsMeasure(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.queries = 0;
  EXPECT_THAT(TuneDials(Grid(10), index.AsMeasure(), options).status().message(),
              HasSubstr("learning queries: expected at least 1"));
  for (const Target& wrong :
       {Target{.recall = 1.5}, Target{.recall = -1}, Target{.latency_us = -2}, Target{}}) {
    EXPECT_EQ(TuneDials(Grid(10), index.AsMeasure(), Options(index, {wrong})).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(TuneDials, LearnsFromASingleQuery) {
  SyntheticIndex index;
  index.queries = 1;
  const auto tuned = TuneDials(Grid(10), index.AsMeasure(), Options(index, {{.recall = 0.9}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  // One answer proves nothing.
  EXPECT_FALSE(tuned->choices[0].met);
}

TEST(TuneDials, RunsSettingsWithThreadsRatherThanPredictThem) {
  const SyntheticIndex index;
  const auto tuned = TuneDials(Grid(10), index.AsMeasure(), Options(index, {{.recall = 0.9}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  std::size_t threaded = 0;
  for (const TriedSetting& tried : tuned->settings) {
    if (tried.dials.query_threads == 1) continue;
    ++threaded;
    EXPECT_GT(tried.measured.queries, 0u) << DescribeDials(tried.dials);
  }
  EXPECT_GT(threaded, 10u);
  EXPECT_LE(SettingsRun(*tuned), tuned->settings.size() / 5);
}

TEST(TuneDials, PassesOnWhatTheMeasurementSays) {
  const Measure broken = [](const Dials&, std::uint64_t, std::uint64_t) -> absl::StatusOr<Sample> {
    return absl::UnavailableError("the device is gone");
  };
  EXPECT_EQ(
      TuneDials(Grid(10), broken, Options(SyntheticIndex(), {{.recall = 0.9}})).status().message(),
      "the device is gone");
}

TEST(CheckTuned, FindsNoRegretWhereThereIsNone) {
  const SyntheticIndex index;
  const auto tuned =
      TuneDials(Grid(10), index.AsMeasure(),
                Options(index, {{.recall = 0.9}, {.recall = 0.99}, {.latency_us = 100}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  TuningCheckOptions options;
  options.queries = index.queries;
  const auto check = CheckTuned(*tuned, index.AsMeasure(), options);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->measured.size(), tuned->settings.size());
  EXPECT_EQ(check->held_out, tuned->settings.size() - SettingsRun(*tuned));
  EXPECT_GE(check->pruned, 0.8);
  EXPECT_LE(check->work_model.median, 0.05);
  EXPECT_LE(check->work_model.worst, 0.25);
  EXPECT_NEAR(check->drift, 0, 0.02);
  // Codes and rounds are nothing to Equation 3.1.
  EXPECT_GT(check->paper_model.median, check->work_model.median);
  for (const ChoiceCheck& choice : check->choices) {
    EXPECT_TRUE(choice.best_exists);
    EXPECT_LE(choice.regret, 0.05);
  }
  EXPECT_GT(check->same_again.worst, 0);
  EXPECT_LE(check->same_again.median, check->same_again.p95);
  EXPECT_LE(check->worst_low_us, check->measured[check->worst].mean_us);
  EXPECT_GE(check->worst_high_us, check->measured[check->worst].mean_us);
  options.queries = 0;
  EXPECT_EQ(CheckTuned(*tuned, index.AsMeasure(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckTuned, WhatWasMeasuredBadlyIsMeasuredAgain) {
  const SyntheticIndex index;
  const auto tuned = TuneDials(Grid(10), index.AsMeasure(), Options(index, {{.recall = 0.9}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  // While the grid is run, the machine is disturbed at one setting that the tuner did not
  // run.
  const auto dropped = std::find_if(tuned->settings.begin(), tuned->settings.end(),
                                    [](const auto& one) { return one.fate == Fate::kDropped; });
  const std::string disturbed = DescribeDials(dropped->dials);
  int disturbances = 0;
  const Measure measure = [&](const Dials& dials, std::uint64_t first,
                              std::uint64_t count) -> absl::StatusOr<Sample> {
    absl::StatusOr<Sample> sample = index.AsMeasure()(dials, first, count);
    if (DescribeDials(dials) == disturbed && disturbances < 4) {
      ++disturbances;
      sample->mean_us *= 3;
    }
    return sample;
  };
  TuningCheckOptions options;
  options.queries = index.queries;
  const auto check = CheckTuned(*tuned, measure, options);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(disturbances, 4);
  EXPECT_LE(check->work_model.worst, 0.25);
}

TEST(CheckTuned, TakesFewerQueriesWhereTimeIsShort) {
  const SyntheticIndex index;
  const auto tuned = TuneDials(Grid(10), index.AsMeasure(), Options(index, {{.recall = 0.9}}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  double us = 0;
  const Measure measure = [&](const Dials& dials, std::uint64_t first,
                              std::uint64_t count) -> absl::StatusOr<Sample> {
    absl::StatusOr<Sample> sample = index.AsMeasure()(dials, first, count);
    us += sample->mean_us * static_cast<double>(count);
    return sample;
  };
  TuningCheckOptions options;
  options.queries = index.queries;
  ASSERT_TRUE(CheckTuned(*tuned, measure, options).ok());
  const double at_length = std::exchange(us, 0);
  options.seconds = 1;
  const auto check = CheckTuned(*tuned, measure, options);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_LT(us, at_length / 2);
  EXPECT_GT(MostCheckRuns(*tuned, options), check->measured.size() * 4);
}

TEST(RecallLowerBound, FewPerfectAnswersProveLittle) {
  Measurement measured;
  measured.recall = 1;
  measured.queries = 5;
  EXPECT_LT(RecallLowerBound(measured, 1.645), 0.9);
  measured.queries = 10000;
  EXPECT_GT(RecallLowerBound(measured, 1.645), 0.999);
  measured.recall = 0.95;
  measured.recall_deviation = 0.1;
  EXPECT_NEAR(RecallLowerBound(measured, 1.645), 0.95 - 1.645 * 0.1 / 100, 1e-4);
}

}  // namespace
}  // namespace hmann
