#include "index/base/statistics.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"

namespace hmann {
namespace {

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Median({7}), 7);
  EXPECT_EQ(Median({3, 100, 1}), 3);
  EXPECT_EQ(Median({4, 1, 3, 100}), 3.5);
  EXPECT_EQ(Median({2, 2, 2, 2}), 2);
}

TEST(Statistics, PercentileByNearestRank) {
  const std::vector<int> sorted = {15, 20, 35, 40, 50};
  EXPECT_EQ(Percentile(sorted, 0), 15);
  EXPECT_EQ(Percentile(sorted, 0.05), 15);
  EXPECT_EQ(Percentile(sorted, 0.30), 20);
  EXPECT_EQ(Percentile(sorted, 0.40), 20);
  EXPECT_EQ(Percentile(sorted, 0.50), 35);
  EXPECT_EQ(Percentile(sorted, 1), 50);
  EXPECT_EQ(Percentile(std::vector<float>{1.5f}, 0.99), 1.5f);
}

TEST(Statistics, PercentileAgainstItsDefinition) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i <= RandomBelow(seed, 0, 60); ++i)
      values.push_back(RandomBelow(seed, i + 1, 20));  // with ties
    std::sort(values.begin(), values.end());
    for (const double share : {0.05, 0.5, 0.95, 0.99}) {
      const auto covered = [&](std::uint64_t value) {  // the share not above it
        return static_cast<double>(std::upper_bound(values.begin(), values.end(), value) -
                                   values.begin()) /
               static_cast<double>(values.size());
      };
      const std::uint64_t found = Percentile(values, share);
      EXPECT_GE(covered(found), share - 1e-12) << seed;
      for (const std::uint64_t smaller : values) {
        if (smaller < found) {
          EXPECT_LT(covered(smaller), share) << seed;
        }
      }
    }
  }
}

TEST(Statistics, RoundsForPeople) {
  EXPECT_EQ(absl::StrCat(RoundToDecimals(1234.56789, 3)), "1234.57");
  EXPECT_EQ(RoundToDecimals(1234.56789, 3), 1234.568);
  EXPECT_EQ(RoundToDecimals(-0.00054, 3), -0.001);
  EXPECT_EQ(RoundToDecimals(0.123456, 5), 0.12346);
  EXPECT_EQ(RoundToDecimals(17.5, 0), 18);
  EXPECT_EQ(RoundToDigits(123456789, 6), 123457000);
  EXPECT_EQ(RoundToDigits(0.000123456789, 6), 0.000123457);
  EXPECT_EQ(RoundToDigits(-2.5e-3, 1), -3e-3);
  EXPECT_EQ(RoundToDigits(0, 6), 0);
  EXPECT_EQ(RoundToDigits(std::numeric_limits<double>::infinity(), 6), 0);
  EXPECT_EQ(RoundToDigits(std::numeric_limits<double>::quiet_NaN(), 6), 0);
}

}  // namespace
}  // namespace hmann
