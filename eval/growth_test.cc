#include "eval/growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "eval/adapters/lines.h"
#include "eval/hardware_limit.h"

namespace hmann {
namespace {

using testing::DoubleNear;
using testing::Each;

std::vector<SizedFigure> Figures(double (*value)(double), double last = 1e7) {
  std::vector<SizedFigure> figures;
  for (double n = 1e4; n <= last; n *= 10) figures.push_back({n, value(n)});
  return figures;
}

TEST(Growth, ALogarithmIsReadAsOne) {
  const std::vector<SizedFigure> figures = Figures([](double n) { return 5 + 3 * std::log(n); });
  const std::optional<Growth> growth = FitGrowth(figures);
  ASSERT_TRUE(growth.has_value());
  EXPECT_NEAR(growth->logarithm.start, 5, 1e-9);
  EXPECT_NEAR(growth->logarithm.slope, 3, 1e-9);
  EXPECT_THAT(growth->logarithm.residuals, Each(DoubleNear(0, 1e-9)));
  EXPECT_GT(growth->power.rms, 1e-3);
  const Extrapolated at = ExtrapolateLogarithm(figures, growth->logarithm, 1e9);
  EXPECT_NEAR(at.value, 5 + 3 * std::log(1e9), 1e-6);
  EXPECT_NEAR(*at.error, 0, 1e-6);
}

TEST(Growth, APowerIsReadAsOne) {
  const std::vector<SizedFigure> figures = Figures([](double n) { return 2 * std::pow(n, 0.12); });
  const std::optional<Growth> growth = FitGrowth(figures);
  ASSERT_TRUE(growth.has_value());
  EXPECT_NEAR(growth->power.start, 2, 1e-9);
  EXPECT_NEAR(growth->power.slope, 0.12, 1e-9);
  EXPECT_THAT(growth->power.residuals, Each(DoubleNear(0, 1e-9)));
  const Extrapolated at = ExtrapolatePower(figures, growth->power, 1e9);
  EXPECT_NEAR(at.value, 2 * std::pow(1e9, 0.12), 1e-6);
  EXPECT_NEAR(*at.error, 1, 1e-6);
}

TEST(Growth, TheErrorGrowsWithTheDistanceAndIsThatOfTheTextbook) {
  // y = x on -1, 0, 1 but for a residual of 1, -2, 1 thirds: s^2 = 6/9 / 1.
  const double e = std::exp(1);
  const std::vector<SizedFigure> figures = {
      {1 / e, 10 - 1 + 1.0 / 3}, {1, 10 - 2.0 / 3}, {e, 10 + 1 + 1.0 / 3}};
  const std::optional<Growth> growth = FitGrowth(figures);
  ASSERT_TRUE(growth.has_value());
  EXPECT_NEAR(growth->logarithm.slope, 1, 1e-12);
  const auto error = [&](double x) {
    return *ExtrapolateLogarithm(figures, growth->logarithm, std::exp(x)).error;
  };
  EXPECT_NEAR(error(3), std::sqrt(6.0 / 9 * (1 + 1.0 / 3 + 9.0 / 2)), 1e-9);
  EXPECT_LT(error(1), error(3));
}

TEST(Growth, TwoSizesHaveNoErrorAndFewerNoGrowth) {
  const std::vector<SizedFigure> two = {{1e4, 10}, {1e5, 20}};
  const std::optional<Growth> growth = FitGrowth(two);
  ASSERT_TRUE(growth.has_value());
  EXPECT_FALSE(ExtrapolateLogarithm(two, growth->logarithm, 1e9).error.has_value());
  EXPECT_FALSE(ExtrapolatePower(two, growth->power, 1e9).error.has_value());
  EXPECT_FALSE(FitGrowth(std::span(two).first(1)).has_value());
  EXPECT_FALSE(FitGrowth({}).has_value());
  EXPECT_FALSE(FitGrowth(std::vector<SizedFigure>{{1e4, 0}, {1e5, 20}}).has_value());
}

TEST(HardwareLimit, LinesFollowFromCounters) {
  // Rows of 2 lines, lists of 3, codes of half a line.
  EXPECT_NEAR(LinesOf({100, 15, 64}, {128, 129, 32}), 200 + 45 + 32, 1e-12);
}

TEST(HardwareLimit, AMemoryAllowsWhatItsBestRateDoes) {
  std::vector<LoadsInFlight> memory(2);
  memory[0].ns_per_line.median = 80;
  memory[1].ns_per_line.median = 10;
  EXPECT_NEAR(*MemoryLimitQps(memory, 1000), 100'000, 1e-6);
  EXPECT_FALSE(MemoryLimitQps(memory, std::nullopt).has_value());
  EXPECT_FALSE(MemoryLimitQps({}, 1000).has_value());
}

TEST(HardwareLimit, ADriveAllowsWhatItsLatencyAndItsRateDo) {
  const std::vector<DepthFigures> drive = {{1, 0, 1, 10'000, {100, 100, 100}},
                                           {8, 0, 1, 40'000, {200, 200, 200}},
                                           {32, 0, 1, 50'000, {640, 640, 640}}};
  EXPECT_NEAR(AtDepth(drive, 4.5).read_us, 150, 1e-9);
  EXPECT_NEAR(AtDepth(drive, 4.5).reads_per_s, 25'000, 1e-9);
  EXPECT_NEAR(AtDepth(drive, 0.5).read_us, 100, 1e-9);
  EXPECT_NEAR(AtDepth(drive, 500).reads_per_s, 50'000, 1e-9);
  // Two rounds of eight reads, 200 us each: 2,500 a second, and no more than 40,000 / 16.
  EXPECT_NEAR(*DriveLimitQps(drive, 16, 2, 1), 2'500, 1e-9);
  EXPECT_NEAR(*DriveLimitQps(drive, 2, 2, 1), 5'000, 1e-9) << "by waiting: 2 x 100 us";
  EXPECT_NEAR(*DriveLimitQps(drive, 16, 2, 100), 50'000.0 / 16, 1e-9) << "by its rate";
  EXPECT_FALSE(DriveLimitQps(drive, 0, 0, 1).has_value());
  EXPECT_FALSE(DriveLimitQps({}, 16, 2, 1).has_value());
}

}  // namespace
}  // namespace hmann
