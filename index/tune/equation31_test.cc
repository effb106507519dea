#include "index/tune/equation31.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hmann {
namespace {

constexpr double kFastNs = 183, kSlowNs = 421;  // the paper's

/// A multi-start search as the paper counts it: 20 distances per unit of ef_l1, 8 per
/// unit of ef_l0.
struct Made {
  ResolvedParams params;
  Counted counted;
  double us = 0;
};

Made Make(SearchMode mode, std::uint32_t ef_l1, std::uint32_t ef_l0, std::uint32_t threads) {
  Made made;
  made.params.mode = mode;
  made.params.ef_l1 = ef_l1;
  made.params.ef_l0 = ef_l0;
  made.params.query_threads = threads;
  const std::uint64_t starts = mode == SearchMode::kMultiStart ? ef_l1 : 1;
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
  const Made upper = Make(SearchMode::kUpper, 16, 0, 1), one = Make(SearchMode::kGraph, 4, 60, 1);
  equation.Learn(upper.params, upper.counted, upper.us);
  equation.Learn(one.params, one.counted, one.us);
  EXPECT_NEAR(equation.fast_ns(), kFastNs, 1e-6);
  EXPECT_NEAR(equation.slow_ns(), kSlowNs, 1e-6);
  for (const std::uint32_t ef_l1 : {1u, 8u, 57u}) {
    for (const std::uint32_t ef_l0 : {0u, 1u, 6u}) {
      for (const std::uint32_t threads : {1u, 2u, 4u}) {
        const Made made = Make(SearchMode::kMultiStart, ef_l1, ef_l0, threads);
        EXPECT_NEAR(equation.PredictUs(made.params, made.counted), made.us, 1e-6 * made.us + 1e-9)
            << ef_l1 << " " << ef_l0 << " " << threads;
      }
    }
  }
}

TEST(Equation31, AGraphWalkByCodesCostsWhatItEstimates) {
  Equation31 equation(false);
  const Made upper = Make(SearchMode::kUpper, 16, 0, 1);
  equation.Learn(upper.params, upper.counted, upper.us);
  Made walk = Make(SearchMode::kGraph, 4, 2, 1);
  const double above = 4 * 20 * kFastNs / 1000;
  walk.counted.counters.estimates = 10 * 480;  // and 16 distances
  equation.Learn(walk.params, walk.counted, above + 50);
  EXPECT_NEAR(equation.PredictUs(walk.params, walk.counted), above + 50, 1e-6);
  walk.counted.counters.estimates = 10 * 976;  // twice as many in all
  EXPECT_NEAR(equation.PredictUs(walk.params, walk.counted), above + 100, 1e-6);
}

TEST(Equation31, PricesCodesOnTopAndNothingBelowZero) {
  Equation31 equation(false);
  const Made upper = Make(SearchMode::kUpper, 16, 0, 1), one = Make(SearchMode::kGraph, 4, 60, 1);
  equation.Learn(upper.params, upper.counted, upper.us);
  equation.Learn(one.params, one.counted, one.us);
  Made codes = Make(SearchMode::kQuantized, 16, 30, 1);
  codes.counted.counters.estimates = 10 * 500;
  codes.params.nprobe = 64;
  equation.Learn(codes.params, codes.counted, codes.us + 500 * 6e-3);
  EXPECT_NEAR(equation.code_ns(true), 6, 1e-6);
  EXPECT_EQ(equation.code_ns(false), 0);
  equation.Learn(codes.params, codes.counted, 0.5 * codes.us);
  EXPECT_EQ(equation.code_ns(true), 0);
}

TEST(Equation31, OnADeviceARecordReadIsTheSlowWork) {
  Equation31 equation(true);
  Made made = Make(SearchMode::kGraph, 4, 60, 1);
  made.counted.counters.node_reads = 10 * 50;
  equation.Learn(made.params, made.counted, 1000);
  const double before = equation.PredictUs(made.params, made.counted);
  EXPECT_NEAR(before, 1000, 1e-6);
  made.counted.counters.node_reads *= 2;
  made.counted.counters.distances_slow = 0;
  EXPECT_GT(equation.PredictUs(made.params, made.counted), before);
}

}  // namespace
}  // namespace hmann
