#include "index/tune/ef_scale_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hmann {
namespace {

/// Recall that rises by one logit per factor of 1.8 in ef_scale, up to at most `most`.
struct MadeCurve {
  double most = 1;
  int runs = 0;

  EfScaleCurve Curve() {
    return EfScaleCurve(
        [this](double ef_scale) -> absl::StatusOr<Counted> {
          ++runs;
          Counted counted{.queries = 1000};
          counted.recall = most / (1 + std::exp(-2 - std::log(ef_scale) / std::log(1.8)));
          return counted;
        },
        1e4);
  }
};

TEST(EfScaleCurve, ReachesARecallFromAboveInAFewRuns) {
  for (const double recall : {0.3, 0.8, 0.95, 0.99, 0.999}) {
    MadeCurve made;
    EfScaleCurve curve = made.Curve();
    const auto point = curve.Reach(recall, 0.02 * (1 - recall));
    ASSERT_TRUE(point.ok() && point->has_value()) << recall;
    EXPECT_GE((*point)->counted.recall, recall);
    EXPECT_LT((*point)->counted.recall, recall + 0.02 * (1 - recall));
    EXPECT_LE(made.runs, 12) << recall;
    const int before = made.runs;
    ASSERT_TRUE(curve.Reach(recall, 0.02 * (1 - recall)).ok());
    EXPECT_EQ(made.runs, before) << "it is known by now";
    for (std::size_t i = 1; i < curve.points().size(); ++i)
      EXPECT_LT(curve.points()[i - 1].ef_scale, curve.points()[i].ef_scale);
  }
}

TEST(EfScaleCurve, SaysThatARecallIsOutOfReach) {
  MadeCurve made{.most = 0.97};
  EfScaleCurve curve = made.Curve();
  const auto point = curve.Reach(0.98, 0.001);
  ASSERT_TRUE(point.ok());
  EXPECT_FALSE(point->has_value());
  EXPECT_EQ(curve.points().back().ef_scale, EfScaleCurve::kMost);
}

/// Data that is hard to search: recall rises slowly, and the work would go on.
TEST(EfScaleCurve, GoesNoFurtherThanTheCostOfAScan) {
  const auto points = [](double scan) {
    EfScaleCurve curve(
        [](double ef_scale) -> absl::StatusOr<Counted> {
          Counted counted{.queries = 10};
          counted.recall = 0.97 / (1 + std::exp(-2 - std::log(ef_scale) / std::log(1.8)));
          counted.counters.distances_slow = static_cast<std::uint64_t>(10 * 100 * ef_scale);
          return counted;
        },
        1e4, scan);
    const auto point = curve.Reach(0.98, 0.001);
    EXPECT_TRUE(point.ok() && !point->has_value());
    return curve.points();
  };
  const auto limited = points(150);
  EXPECT_GT(points(std::numeric_limits<double>::infinity()).size(), limited.size());
  EXPECT_GE(limited.back().counted.Work(), 150);
  EXPECT_EQ(std::count_if(limited.begin(), limited.end(),
                          [](const auto& point) { return point.counted.Work() >= 150; }),
            1);
}

TEST(EfScaleCurve, TakesTheNextAboveWhereParamsAreCoarse) {
  // Recall goes in steps of a tenth.
  EfScaleCurve curve(
      [](double ef_scale) -> absl::StatusOr<Counted> {
        Counted counted{.queries = 100};
        counted.recall = std::min(1.0, std::floor(ef_scale) / 10);
        return counted;
      },
      1000);
  const auto point = curve.Reach(0.65, 0.01);
  ASSERT_TRUE(point.ok() && point->has_value());
  EXPECT_NEAR((*point)->counted.recall, 0.7, 1e-9);
}

/// Recall jumps from 0.85 to 0.96 between two settings, so a point below 0.95 is far.
TEST(EfScaleCurve, LooksForAPointBelowToInterpolate) {
  for (const bool brackets : {false, true}) {
    int runs = 0;
    EfScaleCurve curve(
        [&runs](double ef_scale) -> absl::StatusOr<Counted> {
          ++runs;
          return Counted{.queries = 1000, .recall = ef_scale < 0.5 ? 0.85 : 0.95 + 0.02 * ef_scale};
        },
        10000);
    ASSERT_TRUE(curve.At(0.3).ok());
    const auto reached = curve.Reach(0.95, 0.025, 0.6, brackets);
    ASSERT_TRUE(reached.ok() && reached->has_value());
    EXPECT_GE((*reached)->counted.recall, 0.95);
    EXPECT_EQ(runs, brackets ? 4 : 2);
  }
}

TEST(EfScale, EpsilonFallsBelowZeroAtItsEnd) {
  ResolvedParams at_one, of_cells;
  at_one.mode = SearchMode::kGraph;
  at_one.epsilon = 0.16f;
  of_cells.mode = SearchMode::kQuantized;
  of_cells.nprobe = 9;
  const auto epsilon = [&](double ef_scale) {
    return *WithEfScale(at_one, ef_scale, 100000, 10000).epsilon;
  };
  EXPECT_FLOAT_EQ(epsilon(kLeastScale), 0.01f);
  EXPECT_NEAR(epsilon(LeastEfScale(at_one)), EpsilonLine::kLeast, 1e-3);
  for (double ef_scale = 8; ef_scale > LeastEfScale(at_one); ef_scale *= 0.9)
    EXPECT_LT(epsilon(0.9 * ef_scale), epsilon(ef_scale) + 1e-6f) << ef_scale;
  EXPECT_NEAR(epsilon(0.99 * kLeastScale), epsilon(kLeastScale), 1e-3) << "there is no step";
  EXPECT_EQ(LeastEfScale(of_cells), kLeastScale);
}

TEST(EfScaleCurve, PassesOnWhatARunSays) {
  EfScaleCurve curve([](double) -> absl::StatusOr<Counted> { return absl::CancelledError("no"); },
                     1);
  EXPECT_EQ(curve.Reach(0.9, 0.1).status().code(), absl::StatusCode::kCancelled);
}

TEST(RecallLowerBound, FewPerfectAnswersProveLittle) {
  Counted counted;
  counted.recall = 1;
  counted.queries = 5;
  EXPECT_LT(RecallLowerBound(counted, 1.645), 0.9);
  counted.queries = 10000;
  EXPECT_GT(RecallLowerBound(counted, 1.645), 0.999);
  counted.recall = 0.95;
  counted.recall_deviation = 0.1;
  EXPECT_NEAR(RecallLowerBound(counted, 1.645), 0.95 - 1.645 * 0.1 / 100, 1e-4);
}

}  // namespace
}  // namespace hmann
