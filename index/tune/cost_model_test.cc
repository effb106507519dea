#include "index/tune/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "index/dials/dial_table.h"
#include "index/tune/least_squares.h"
#include "index/tune/surface.h"
#include "index/tune/testing/synthetic_index.h"

namespace hmann {
namespace {

TEST(NonNegativeLeastSquares, FindsWhatMadeTheNumbers) {
  const std::vector<double> x = {3, 0, 0.5};
  std::vector<double> a, b;
  for (std::uint64_t row = 0; row < 12; ++row) {
    double sum = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      a.push_back(RandomUnit(1, 3 * row + j));
      sum += a.back() * x[j];
    }
    b.push_back(sum);
  }
  const std::vector<double> found = NonNegativeLeastSquares(a, b, 3);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(found[j], x[j], 1e-6);
}

TEST(NonNegativeLeastSquares, NeverGoesBelowZeroAndTakesEmptyColumns) {
  const std::vector<double> a = {1, 1, 0, 1, 2, 0, 1, 3, 0}, b = {3, 2, 1};  // the best line falls
  const std::vector<double> found = NonNegativeLeastSquares(a, b, 3);
  EXPECT_NEAR(found[0], 2, 1e-6);
  EXPECT_EQ(found[1], 0);
  EXPECT_EQ(found[2], 0);
}

TEST(Cholesky, SolvesAndRefuses) {
  Cholesky factor;
  ASSERT_TRUE(factor.Factor({4, 2, 2, 3}, 2));
  const std::vector<double> x = factor.Solve({10, 8});
  EXPECT_NEAR(x[0], 1.75, 1e-12);
  EXPECT_NEAR(x[1], 1.5, 1e-12);
  EXPECT_NEAR(factor.InverseDiagonal()[0], 3.0 / 8, 1e-12);
  EXPECT_FALSE(factor.Factor({1, 2, 2, 1}, 2));
}

TEST(Surface, FollowsASmoothFunctionBetweenItsPoints) {
  const auto value = [](double x, double y) {
    return 2 + 0.7 * x - 0.3 * y + 0.05 * x * y + std::sin(x / 3);
  };
  std::vector<Surface::Point> points;
  std::vector<double> values;
  for (int x = 0; x <= 8; x += 2) {
    for (int y = 0; y <= 8; y += 2) {
      points.push_back({double(x), double(y)});
      values.push_back(value(x, y));
    }
  }
  const Surface surface = Surface::Fit(points, values);
  EXPECT_LT(surface.leave_one_out_error(), 0.1);
  for (double x = 0.5; x < 8; x += 1) EXPECT_NEAR(surface.At({x, 8 - x}), value(x, 8 - x), 0.05);
  for (std::size_t i = 0; i < points.size(); ++i)
    EXPECT_NEAR(surface.At(points[i]), values[i], 0.01);
}

TEST(Surface, TakesOnePointAndCoordinatesThatDoNotVary) {
  const std::vector<double> one = {5.0};
  EXPECT_NEAR(Surface::Fit({{1, 2}}, one).At({1, 2}), 5, 1e-3);
  const std::vector<double> two = {1.0, 3.0};
  EXPECT_NEAR(Surface::Fit({{1, 7}, {3, 7}}, two).At({2, 7}), 2, 0.1);
}

/// Times made by Equation 3.1.
TEST(PaperModel, FindsItsOwnNumbers) {
  std::vector<Observation> observations;
  const auto make = [](std::uint32_t ef_l1, std::uint32_t ef_l0, std::uint32_t threads) {
    Observation one;
    one.dials.k = 10;
    one.dials.walk = WalkKind::kMultiStart;
    one.dials.ef_l1 = ef_l1;
    one.dials.ef_l0 = ef_l0;
    one.dials.query_threads = threads;
    one.measured.queries = one.measured.counted = 10;
    one.measured.counters.distances_fast = 10 * 20 * ef_l1;
    one.measured.counters.distances_slow = 10 * 8 * ef_l1 * static_cast<std::uint64_t>(ef_l0);
    one.measured.mean_us = (ef_l1 * 20 * 183 + std::ceil(ef_l1 / double(threads)) *
                                                   static_cast<double>(ef_l0) * 8 * 421) /
                           1000;
    return one;
  };
  for (const std::uint32_t ef_l1 : {8u, 32u, 100u}) {
    for (const std::uint32_t ef_l0 : {1u, 2u, 6u})
      observations.push_back(make(ef_l1, ef_l0, 1 + ef_l1 % 3));
  }
  const Observation unseen = make(57, 4, 4);
  EXPECT_NEAR(PaperModel::Fit(observations).PredictUs(unseen.dials), unseen.measured.mean_us,
              0.01 * unseen.measured.mean_us);
  CostPriors measured;
  measured.fast_distance_ns = 183;
  measured.slow_distance_ns = 421;
  EXPECT_NEAR(PaperModel::Fit(observations, measured).PredictUs(unseen.dials),
              unseen.measured.mean_us, 0.01 * unseen.measured.mean_us);
}

std::vector<Observation> Observe(const SyntheticIndex& index, const std::vector<Dials>& grid,
                                 std::size_t of_each_family) {
  std::vector<Observation> observations;
  for (std::size_t family = 0; family < kDialFamilies; ++family) {
    for (const std::size_t i : CoverFamily(grid, family, of_each_family)) {
      observations.push_back({grid[i], CombineSamples({*index.AsMeasure()(grid[i], 0, 300)})});
    }
  }
  return observations;
}

TEST(WorkModel, PredictsSettingsThatWereNotRun) {
  SyntheticIndex index;
  index.noise = 0;
  const std::vector<Dials> grid =
      DialGrid({.k = 10, .context = SyntheticIndex::Context(), .most_query_threads = 2});
  const WorkModel model = WorkModel::Fit(Observe(index, grid, 20));
  std::vector<double> errors;
  for (const Dials& dials : grid) {
    const Prediction predicted = model.Predict(dials);
    errors.push_back(std::abs(predicted.mean_us / index.MeanUs(dials) - 1));
    EXPECT_NEAR(predicted.recall, index.MeanRecall(dials), 0.05) << DescribeDials(dials);
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.03);
  EXPECT_LT(errors.back(), 0.25);
}

TEST(WorkModel, APriorSettlesWhatTheMeasurementsCannotTellApart) {
  SyntheticIndex index;
  index.noise = 0;
  const std::vector<Dials> grid =
      DialGrid({.k = 10, .context = SyntheticIndex::Context(), .most_query_threads = 1});
  CostPriors priors;
  priors.slow_distance_ns = 25;  // distances and touches are as many: the sum alone is known
  priors.touch_ns = index.slow_touch_ns;
  const WorkModel model = WorkModel::Fit(Observe(index, grid, 20), priors);
  const auto price_ns = [&model](const Counters& work) {
    Observation observation;
    observation.dials.walk = WalkKind::kBestFirst;
    observation.measured.counted = 1;
    const double nothing = model.PriceUs(observation);
    observation.measured.counters = work;
    return 1000 * (model.PriceUs(observation) - nothing);
  };
  EXPECT_NEAR(price_ns({.distances_slow = 1}), 25, 5);
  EXPECT_NEAR(price_ns({.slow_touches = 1}), index.slow_touch_ns, 12);
}

TEST(WorkModel, TakesNoLessThanTheBandwidthAllows) {
  SyntheticIndex index;
  index.noise = 0;
  const std::vector<Dials> grid =
      DialGrid({.k = 10, .context = SyntheticIndex::Context(), .most_query_threads = 1});
  CostPriors priors;
  priors.bandwidth_gb_per_s = 1e-3;
  const std::vector<Observation> observations = Observe(index, grid, 10);
  const WorkModel model = WorkModel::Fit(observations, priors);
  for (const Observation& observation : observations) {
    const double bytes = static_cast<double>(observation.measured.counters.slow_bytes) /
                         static_cast<double>(observation.measured.counted);
    EXPECT_GE(model.PriceUs(observation), 0.999 * bytes);
  }
}

}  // namespace
}  // namespace hmann
