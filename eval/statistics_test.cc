#include "eval/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "index/base/random.h"

namespace hmann::eval {
namespace {

using testing::ElementsAre;

TEST(Statistics, MadIgnoresOneWildValue) {
  EXPECT_EQ(Mad({5}), 0);
  EXPECT_EQ(Mad({1, 1, 2, 2, 4, 6, 9}), 1);
  EXPECT_EQ(Mad({10, 11, 12, 13, 1e9}), 1);
}

TEST(Statistics, ParetoFrontKeepsWhatNothingBeats) {
  const std::vector<OperatingPoint> points = {{0.9, 100}, {0.8, 90},  {0.95, 80}, {0.9, 110},
                                              {0.99, 20}, {0.7, 300}, {0.95, 80}, {0.97, 20}};
  EXPECT_THAT(ParetoFront(points), ElementsAre(5, 3, 2, 4));
  EXPECT_TRUE(ParetoFront({}).empty());
}

TEST(Statistics, ParetoFrontOfRandomPointsAgainstTheDefinition) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<OperatingPoint> points;
    // Few distinct values, so that ties occur.
    for (std::uint64_t i = 0; i < 40; ++i) {
      points.push_back({static_cast<double>(RandomBelow(seed, 2 * i, 12)) / 12,
                        static_cast<double>(RandomBelow(seed, 2 * i + 1, 12) + 1)});
    }
    const std::vector<std::size_t> front = ParetoFront(points);
    for (std::size_t i = 1; i < front.size(); ++i) {
      EXPECT_LT(points[front[i - 1]].recall, points[front[i]].recall);
      EXPECT_GT(points[front[i - 1]].qps, points[front[i]].qps);
    }
    for (const OperatingPoint& point : points) {
      bool covered = false;
      for (const std::size_t i : front)
        covered |= points[i].recall >= point.recall && points[i].qps >= point.qps;
      EXPECT_TRUE(covered) << point.recall << " " << point.qps;
    }
  }
}

TEST(Statistics, InterpolationIsStraightInLogOverMisses) {
  // Misses fall tenfold from 0.1 to 0.01 while QPS falls from 1000 to 100: halfway in
  // both logs is sqrt.
  const std::vector<double> recalls = {0.9, 0.99}, qps = {1000, 100};
  const auto middle = InterpolateAtRecall(recalls, qps, 1 - std::sqrt(0.1 * 0.01), 1e-5);
  ASSERT_TRUE(middle.has_value());
  EXPECT_NEAR(middle->value, std::sqrt(1000.0 * 100), 1e-9);
  EXPECT_NEAR(InterpolateAtRecall(recalls, qps, 0.99, 1e-5)->value, 100, 1e-9);
  EXPECT_NEAR(InterpolateAtRecall(recalls, qps, 0.9, 1e-5)->value, 1000, 1e-9);
}

TEST(Statistics, NextToZeroTheValueItselfIsInterpolated) {
  const std::vector<double> recalls = {0.9, 0.99, 0.999}, none = {0, 0, 0}, some = {0, 100, 100};
  const double middle = 1 - std::sqrt(0.1 * 0.01);
  EXPECT_EQ(InterpolateAtRecall(recalls, none, middle, 1e-5)->value, 0);
  EXPECT_NEAR(InterpolateAtRecall(recalls, some, middle, 1e-5)->value, 50, 1e-9);
  EXPECT_EQ(InterpolateAtRecall(recalls, some, 0.9, 1e-5)->value, 0);
}

TEST(Statistics, TargetsOutsideTheCurve) {
  const std::vector<double> recalls = {0.9, 0.95}, qps = {50, 20};
  const auto below = InterpolateAtRecall(recalls, qps, 0.8, 1e-5);
  ASSERT_TRUE(below.has_value());
  EXPECT_EQ(below->value, 50);
  EXPECT_EQ(below->recall, 0.9) << "says that the point lies above the target";
  EXPECT_FALSE(InterpolateAtRecall(recalls, qps, 0.951, 1e-5).has_value());
  EXPECT_FALSE(InterpolateAtRecall({}, {}, 0.5, 1e-5).has_value());
}

TEST(Statistics, ARecallOfOneStaysFinite) {
  const std::vector<double> recalls = {0.9, 1.0}, qps = {1000, 10};
  const auto value = InterpolateAtRecall(recalls, qps, 0.999, 1e-4);
  ASSERT_TRUE(value.has_value());
  EXPECT_GT(value->value, 10);
  EXPECT_LT(value->value, 1000);
  EXPECT_NEAR(InterpolateAtRecall(recalls, qps, 1.0, 1e-4)->value, 10, 1e-9);
}

}  // namespace
}  // namespace hmann::eval
