#include "index/tune/equation31.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hmann {
namespace {

constexpr double kFastNs = 183, kSlowNs = 421;  // the paper's

/// A multi-start search as the paper counts it: 20 distances a unit of ef_l1, 8 a unit of
/// ef_l0.
struct Made {
  Dials dials;
  Counted counted;
  double us = 0;
};

Made Make(WalkKind walk, std::uint32_t ef_l1, std::uint32_t ef_l0, std::uint32_t threads) {
  Made made;
  made.dials.walk = walk;
  made.dials.ef_l1 = ef_l1;
  made.dials.ef_l0 = ef_l0;
  made.dials.query_threads = threads;
  const std::uint64_t starts = walk == WalkKind::kMultiStart ? ef_l1 : 1;
  made.counted.queries = 10;
  made.counted.counters.distances_fast = 10ull * 20 * ef_l1;
  made.counted.counters.distances_slow = 10ull * 8 * starts * ef_l0;
  made.us = (ef_l1 * 20 * kFastNs +
             std::ceil(static_cast<double>(starts) / threads) * ef_l0 * 8 * kSlowNs) /
            1000;
  return made;
}

TEST(Equation31, FindsItsConstantsAndPredictsWhatTheyMake) {
  Equation31 equation(false);
  const Made upper = Make(WalkKind::kUpper, 16, 0, 1), one = Make(WalkKind::kBestFirst, 4, 60, 1);
  equation.Learn(upper.dials, upper.counted, upper.us);
  equation.Learn(one.dials, one.counted, one.us);
  EXPECT_NEAR(equation.fast_ns(), kFastNs, 1e-6);
  EXPECT_NEAR(equation.slow_ns(), kSlowNs, 1e-6);
  for (const std::uint32_t ef_l1 : {1u, 8u, 57u}) {
    for (const std::uint32_t ef_l0 : {0u, 1u, 6u}) {
      for (const std::uint32_t threads : {1u, 2u, 4u}) {
        const Made made = Make(WalkKind::kMultiStart, ef_l1, ef_l0, threads);
        EXPECT_NEAR(equation.PredictUs(made.dials, made.counted), made.us, 1e-6 * made.us + 1e-9)
            << ef_l1 << " " << ef_l0 << " " << threads;
      }
    }
  }
}

TEST(Equation31, PricesCodesOnTopAndNothingBelowZero) {
  Equation31 equation(false);
  const Made upper = Make(WalkKind::kUpper, 16, 0, 1), one = Make(WalkKind::kBestFirst, 4, 60, 1);
  equation.Learn(upper.dials, upper.counted, upper.us);
  equation.Learn(one.dials, one.counted, one.us);
  Made codes = Make(WalkKind::kQuantised, 16, 30, 1);
  codes.counted.counters.estimates = 10 * 500;
  codes.dials.nprobe = 64;
  equation.Learn(codes.dials, codes.counted, codes.us + 500 * 6e-3);
  EXPECT_NEAR(equation.code_ns(true), 6, 1e-6);
  EXPECT_EQ(equation.code_ns(false), 0);
  equation.Learn(codes.dials, codes.counted, 0.5 * codes.us);
  EXPECT_EQ(equation.code_ns(true), 0);
}

TEST(Equation31, OnADeviceARecordReadIsTheSlowWork) {
  Equation31 equation(true);
  Made made = Make(WalkKind::kBestFirst, 4, 60, 1);
  made.counted.counters.slow_reads = 10 * 50;
  equation.Learn(made.dials, made.counted, 1000);
  const double before = equation.PredictUs(made.dials, made.counted);
  EXPECT_NEAR(before, 1000, 1e-6);
  made.counted.counters.slow_reads *= 2;
  made.counted.counters.distances_slow = 0;
  EXPECT_GT(equation.PredictUs(made.dials, made.counted), before);
}

}  // namespace
}  // namespace hmann
