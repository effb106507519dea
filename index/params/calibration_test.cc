#include "hmann/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hmann/search_params.h"

namespace hmann {
namespace {

constexpr double kNear = 1e-4;
constexpr Calibration::Way kMemory{.mode = SearchMode::kGraph},
    kCells{.mode = SearchMode::kQuantized, .cells = true}, kUpper{.mode = SearchMode::kUpper};

Calibration Example() {
  return {.origin = "q.fbin",
          .curves = {{kMemory, 1, 300, {{0.5f, 0.9}, {1, 0.95}, {2, 0.99}}},
                     {kMemory, 100, 300, {{1, 0.8}, {4, 0.95}}},
                     {kCells, 10, 300, {{2, 0.97}}}}};
}

TEST(Calibration, AnswersBetweenWhatWasMeasured) {
  const Calibration example = Example();
  const auto found = [&](std::uint32_t k, double recall) {
    return *example.Find(kMemory, k, recall);
  };
  EXPECT_NEAR(found(1, 0.95).ef_scale, 1, kNear);
  EXPECT_NEAR(found(1, 0.99).ef_scale, 2, kNear);
  // Odds of 3:1, 9:1 and 27:1: halfway between the logarithms.
  const Calibration steps{.origin = "", .curves = {{kMemory, 1, 1, {{1, 0.75}, {4, 27.0 / 28}}}}};
  EXPECT_NEAR(steps.Find(kMemory, 1, 0.9)->ef_scale, 2, kNear);
  // k = 10 is halfway from 1 to 100 in log k: the mean of 1 and 4 x 100^-0.4, over
  // 10^-0.4.
  EXPECT_NEAR(found(10, 0.95).ef_scale, 2.05216, kNear);
  EXPECT_NEAR(found(1000, 0.95).ef_scale, 4, kNear);
}

TEST(Calibration, ScalarCodesHaveCurvesOfTheirOwn) {
  Calibration example = Example();
  const Calibration::Way by_codes{.mode = SearchMode::kGraph, .scalar_bits = 4};
  EXPECT_FALSE(example.Find(by_codes, 1, 0.95).has_value()) << "their recall is not known";
  example.curves.push_back({by_codes, 1, 300, {{3, 0.95}}});
  EXPECT_EQ(example.Find(by_codes, 1, 0.95)->ef_scale, 3);
  EXPECT_EQ(example.Find(kMemory, 1, 0.95)->ef_scale, 1);
  SearchContext context{.n = 100000, .n1 = 10000, .scalar_bits = 4};
  const ResolvedParams before = *SearchParams{.k = 1}.Resolve(context);
  context.calibration = &example;
  EXPECT_NEAR(*SearchParams{.k = 1}.Resolve(context)->epsilon, 3 * *before.epsilon, kNear);
}

TEST(Calibration, EffortFollowsTheQuery) {
  Calibration example = Example();
  SearchContext context{.n = 100000, .n1 = 10000, .calibration = &example};
  const ResolvedParams same = *SearchParams{.k = 10}.Resolve(context);
  EXPECT_EQ(same.Epsilon().At(0), same.Epsilon().At(100));
  example.difficulties = {{.k = 1, .typical = 0.2f, .rise = 0.5f},
                          {.k = 100, .typical = 0.6f, .rise = 0.1f}};
  // k = 10 is halfway.
  const ResolvedParams params = *SearchParams{.k = 10}.Resolve(context);
  EXPECT_EQ(params.epsilon, same.epsilon);
  EXPECT_NEAR(params.Epsilon().At(0.4f), *params.epsilon, kNear);
  EXPECT_NEAR(params.Epsilon().At(0.5f), *params.epsilon + 0.03, kNear);
  EXPECT_EQ(params.Epsilon().At(-100), EpsilonLine::kLeast);
  const ResolvedParams named = *SearchParams{.k = 1000, .epsilon = 0.2f}.Resolve(context);
  EXPECT_NEAR(named.Epsilon().At(1.6f), 0.3, kNear) << "beyond the last k, that of the last";
}

TEST(Calibration, SaysWhatItDoesNotReach) {
  const Calibration example = Example();
  const auto low = *example.Find(kMemory, 1, 0.5);
  EXPECT_EQ(low.ef_scale, 0.5f);
  EXPECT_EQ(low.recall, 0.9);
  const auto high = *example.Find(kMemory, 100, 0.99);
  EXPECT_EQ(high.ef_scale, 4);
  EXPECT_EQ(high.recall, 0.95);
  EXPECT_TRUE(high.measured);
  EXPECT_FALSE(example.Find(kMemory, 101, 0.9)->measured) << "beyond the last k";
  EXPECT_EQ(example.Find(kCells, 1, 0.9)->ef_scale, 2) << "of the only k";
  EXPECT_FALSE(example.Find({.mode = SearchMode::kQuantized}, 10, 0.9).has_value());
}

TEST(Calibration, TheUpperLayersAloneWhereTheyFindEnoughForLess) {
  Calibration example{
      .origin = "",
      .curves = {{kMemory, 10, 1, {{1, 0.9, 100}, {2, 0.96, 400}}},
                 {kUpper, 10, 1, {{1, 0.88, 50}, {2, 0.96, 200}, {3, 0.97, 1000}}}}};
  const auto enough = [&](std::uint32_t k, double recall) {
    return example.UpperIsEnough(kMemory, k, recall);
  };
  EXPECT_TRUE(enough(10, 0.96));
  EXPECT_TRUE(enough(10, 0.965)) << "graph does not reach it";
  EXPECT_FALSE(enough(10, 0.98));
  EXPECT_FALSE(enough(11, 0.9)) << "not measured";
  EXPECT_TRUE(enough(3, 0.96));
  example.curves[1].points[1].distances = 401;
  EXPECT_FALSE(enough(10, 0.96)) << "graph needs fewer";
  example.curves[1].points[1].distances = 0;
  EXPECT_FALSE(enough(10, 0.96)) << "nobody counted";
  example.curves[1].points[1].distances = 200;
  EXPECT_FALSE(example.UpperIsEnough({.mode = SearchMode::kGraph, .scalar_bits = 8}, 10, 0.96))
      << "measured without codes";

  SearchContext context{.n = 100000, .n1 = 10000};
  context.calibration = &example;
  const auto mode = [&](const SearchParams& options) { return options.Resolve(context)->mode; };
  EXPECT_EQ(mode({.k = 10}), SearchMode::kUpper);
  EXPECT_EQ(SearchParams({.k = 10, .recall = 0.96}).Resolve(context)->ef_l1, 20u);
  EXPECT_EQ(mode({.k = 11}), SearchMode::kGraph);
  EXPECT_EQ(mode({.k = 10, .ef_l0 = 50}), SearchMode::kGraph) << "a parameter that it has not";
  EXPECT_EQ(mode({.k = 10, .ef_l1 = 5}), SearchMode::kGraph) << "what is said decides";
  EXPECT_EQ(mode({.k = 10, .mode = SearchMode::kGraph}), SearchMode::kGraph);
  context.n1 = 9;
  EXPECT_EQ(mode({.k = 10}), SearchMode::kGraph) << "fewer are promoted than asked for";
}

TEST(Calibration, ScansWhereATraversalWouldTakeLonger) {
  const Calibration example{
      .origin = "",
      .curves = {{kMemory, 10, 1, {{1, 0.9, 100}, {2, 0.96, 16000}, {9, 0.99, 20000}}}}};
  SearchContext context{.n = 10000, .n1 = 1000, .row_bytes = 1536};
  context.calibration = &example;
  const auto resolve = [&](const SearchParams& options) { return *options.Resolve(context); };
  EXPECT_EQ(resolve({.k = 10}).mode, SearchMode::kGraph);
  EXPECT_LT(resolve({.k = 10}).most_distances, 10000u) << "a hard query is scanned";
  EXPECT_EQ(resolve({.k = 10, .recall = 0.99}).mode, SearchMode::kScan);
  EXPECT_EQ(resolve({.k = 10, .mode = SearchMode::kGraph}).mode, SearchMode::kGraph);
  EXPECT_EQ(resolve({.k = 10, .mode = SearchMode::kGraph}).most_distances, ~std::uint64_t{0});
  EXPECT_EQ(resolve({.k = 10, .mode = SearchMode::kScan}).mode, SearchMode::kScan);
  EXPECT_LE(resolve({.k = 10, .mode = SearchMode::kMultiStart}).most_distances, 7500u);
  // The shorter a row is, the more a scan saves.
  context.row_bytes = 16;
  EXPECT_EQ(resolve({.k = 10}).mode, SearchMode::kScan);
  context.far = true;
  EXPECT_EQ(resolve({.k = 10, .recall = 0.99}).mode, SearchMode::kGraph);
  EXPECT_FALSE(SearchParams({.ef_l1 = 5, .mode = SearchMode::kScan}).Resolve(context).ok());
}

TEST(Calibration, ScalesWhatEndsAWalkAndLeavesWhatWasSaid) {
  const Calibration example = Example();
  SearchContext context{.n = 100000, .n1 = 10000};
  const ResolvedParams by_constants = *SearchParams{.k = 10}.Resolve(context);
  context.calibration = &example;
  const ResolvedParams calibrated = *SearchParams{.k = 10}.Resolve(context);
  constexpr double kEffort = 2.05216;  // as above
  EXPECT_NEAR(*calibrated.epsilon, kEffort * *by_constants.epsilon, kNear);
  EXPECT_EQ(calibrated.ef_l0, std::round(kEffort * by_constants.ef_l0));
  EXPECT_LT(*SearchParams({.k = 10, .recall = 0.9}).Resolve(context)->epsilon, *calibrated.epsilon);
  EXPECT_EQ(SearchParams({.k = 10, .ef_l0 = 50}).Resolve(context)->ef_l0, 50u);
  EXPECT_EQ(SearchParams({.k = 10, .epsilon = 0.1f}).Resolve(context)->epsilon, 0.1f);

  context.has_ratios = false;
  EXPECT_EQ(SearchParams{.k = 10}.Resolve(context)->ef_l0, 131u) << "2.05 times 64";
  context.has_codes = context.block_tier = true;
  const ResolvedParams on_device = *SearchParams{.k = 10}.Resolve(context);
  EXPECT_EQ(on_device.ef_l0, 60u);
  EXPECT_EQ(on_device.nprobe, 181u) << "128 times the root of 2";
  context.ef_scale = 1;
  EXPECT_EQ(SearchParams{.k = 10}.Resolve(context)->ef_l0, 30u);
}

}  // namespace
}  // namespace hmann
