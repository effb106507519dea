#include "eval/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace hmann::eval {
namespace {

/// Settings with recalls, each with one time per round.
Curve Runs(const std::string& name,
           const std::vector<std::pair<double, std::vector<double>>>& settings) {
  Curve curve;
  curve.name = curve.label = name;
  for (const auto& [recall, seconds] : settings) {
    curve.settings.push_back({{{"ef", curve.settings.size()}},
                              nullptr,
                              std::vector<double>(seconds.size(), recall),
                              seconds,
                              seconds});
  }
  return curve;
}

const Reading kReading = {.queries = 1000, .k = 10, .clock = RunClock::kWall};

TEST(Figures, RatiosAreWithinARound) {
  // Round 1 is twice as slow for both curves; the ratio does not see it.
  const Curve slow = Runs("slow", {{0.9, {1, 2, 1}}, {0.99, {4, 8, 4}}}),
              fast = Runs("fast", {{0.9, {0.5, 1, 0.5}}, {0.99, {1, 2, 1}}});
  const CurveReader slow_reader(slow, kReading), fast_reader(fast, kReading);
  EXPECT_DOUBLE_EQ(slow_reader.At(0.9)->qps.median, 1000);
  EXPECT_DOUBLE_EQ(slow_reader.RatioTo(slow_reader, 0.9)->median, 1);
  EXPECT_NEAR(fast_reader.RatioTo(slow_reader, 0.9)->median, 2, 1e-9);
  EXPECT_NEAR(fast_reader.RatioTo(slow_reader, 0.99)->median, 4, 1e-9);
  EXPECT_NEAR(fast_reader.RatioTo(slow_reader, 0.99)->mad, 0, 1e-9);
  EXPECT_NEAR(fast_reader.At(0.99)->qps.median, 1000, 1e-9) << "the median round";
}

TEST(Figures, OneLuckyRunDoesNotMakeAFront) {
  // Setting 1 is slower than setting 0 except in one round.
  const Curve curve = Runs("x", {{0.95, {1, 1, 1}}, {0.95, {2, 0.1, 2}}});
  const CurveReader reader(curve, kReading);
  EXPECT_TRUE(reader.points()[0].front);
  EXPECT_FALSE(reader.points()[1].front);
  EXPECT_DOUBLE_EQ(reader.At(0.9)->qps.median, 1000);
  EXPECT_DOUBLE_EQ(reader.At(0.9)->at_recall, 0.95) << "nothing was measured at 0.9";
}

TEST(Figures, WhatIsNotReachedHasNoValue) {
  const Curve slow = Runs("slow", {{0.9, {1}}, {0.999, {4}}}), low = Runs("low", {{0.91, {1}}}),
              none;
  const CurveReader slow_reader(slow, kReading), low_reader(low, kReading),
      none_reader(none, kReading);
  EXPECT_FALSE(low_reader.At(0.99).has_value());
  EXPECT_FALSE(low_reader.RatioTo(slow_reader, 0.99).has_value());
  EXPECT_TRUE(slow_reader.RatioTo(slow_reader, 0.99).has_value());
  EXPECT_FALSE(slow_reader.RatioTo(low_reader, 0.99).has_value());
  EXPECT_FALSE(none_reader.At(0.1).has_value());
}

TEST(Figures, TheClockIsTheOneAskedFor) {
  Curve curve = Runs("x", {{0.95, {2, 2, 2}}});
  curve.settings[0].cpu_seconds = {1, 1, 1};
  Reading reading = kReading;
  EXPECT_DOUBLE_EQ(CurveReader(curve, reading).points()[0].qps, 500);
  reading.clock = RunClock::kCpu;
  EXPECT_DOUBLE_EQ(CurveReader(curve, reading).points()[0].qps, 1000);
  EXPECT_DOUBLE_EQ(CurveReader(curve, reading).WallOverCpu(), 2);
}

TEST(Figures, RoundsThatOthersDisturbedDoNotCount) {
  Curve curve = Runs("x", {{0.9, {1, 8, 1.25}}, {0.99, {4, 4, 4}}});
  const Curve other = Runs("y", {{0.9, {2, 2, 2.5}}});
  curve.settings[0].observed["p99_us"] = {100, 900, 300};
  curve.settings[0].noisy = {false, true, false};
  const CurveReader reader(curve, kReading), other_reader(other, kReading);
  EXPECT_DOUBLE_EQ(reader.points()[0].qps, 900) << "of 1,000 and 800";
  EXPECT_DOUBLE_EQ(reader.points()[0].observed.at("p99_us"), 200);
  EXPECT_DOUBLE_EQ(reader.At(0.9)->qps.median, 900);
  EXPECT_DOUBLE_EQ(reader.RatioTo(other_reader, 0.9)->median, 2);
  EXPECT_DOUBLE_EQ(other_reader.RatioTo(reader, 0.9)->median, 0.5);
  curve.settings[0].noisy = {true, true, true};
  EXPECT_DOUBLE_EQ(CurveReader(curve, kReading).points()[0].qps, 800)
      << "all were disturbed: all count";
  EXPECT_EQ(Quiet({1, 2, 3}, {}), (std::vector<double>{1, 2, 3}));
}

TEST(Figures, ADisturbedRunElsewhereOnTheFrontIsNoneHere) {
  Curve curve = Runs("x", {{0.9, {1, 1}}, {0.95, {2, 4}}, {0.99, {8, 8}}});
  curve.settings[2].noisy = {true, false};
  EXPECT_DOUBLE_EQ(CurveReader(curve, kReading).At(0.95)->qps.median, 375)
      << "read of the second setting in both rounds";
}

TEST(Figures, CountersAreReadAlongTheFront) {
  Curve curve = Runs("x", {{0.9, {1}}, {0.99, {10}}, {0.95, {100}}});
  curve.settings[0].counters = {{"node_reads", 100}};
  curve.settings[1].counters = {{"node_reads", 1000}};
  curve.settings[2].counters = {{"node_reads", 1e6}};  // beaten by setting 1: not on the
                                                       // front
  const CurveReader reader(curve, kReading);
  EXPECT_NEAR(*reader.ValueAt("node_reads", 0.9), 100, 1e-6);
  EXPECT_NEAR(*reader.ValueAt("node_reads", 1 - std::sqrt(0.001)), std::sqrt(1e5), 1e-6);
  EXPECT_FALSE(reader.ValueAt("node_reads", 0.999).has_value());
  EXPECT_FALSE(reader.ValueAt("no such counter", 0.9).has_value());
}

TEST(Figures, ACounterOfZeroStaysZero) {
  Curve curve = Runs("x", {{0.9, {1}}, {0.99, {10}}});
  for (SettingRuns& runs : curve.settings) runs.counters = {{"estimates", 0}};
  const CurveReader reader(curve, kReading);
  for (const double target : {0.5, 0.9, 0.95, 0.99})
    EXPECT_EQ(*reader.ValueAt("estimates", target), 0) << target;
}

TEST(Figures, WhatRunsToldIsReadAlongTheFrontByMedians) {
  Curve curve = Runs("x", {{0.9, {1, 1, 1}}, {0.99, {10, 10, 10}}});
  curve.settings[0].observed["p99_us"] = {90, 100, 900};
  curve.settings[1].observed["p99_us"] = {1000, 999, 5000};
  const CurveReader reader(curve, kReading);
  EXPECT_EQ(reader.points()[0].observed.at("p99_us"), 100);
  EXPECT_NEAR(*reader.ValueAt("p99_us", 1 - std::sqrt(0.001)), std::sqrt(1e5), 1e-6);
  EXPECT_FALSE(reader.ValueAt("p50_us", 0.9).has_value());
}

TEST(Figures, ParamsAreWhatDecidesTheWorkOfAQuery) {
  EXPECT_EQ(SettingWithoutThreads({{"ef", 40}, {"threads", 2}, {"in_flight", 8}}),
            Json({{"ef", 40}, {"in_flight", 8}}));
  EXPECT_EQ(SettingWithoutThreads({{"ef", 40}}), Json({{"ef", 40}}));
}

TEST(Figures, ASettingMatchesWhatItHasAllOf) {
  EXPECT_TRUE(Matches({{"ef", 1}, {"mode", "x"}}, {{"ef", 1}}));
  EXPECT_TRUE(Matches({{"ef", 1}}, Json::object()));
  EXPECT_FALSE(Matches({{"ef", 1}}, {{"ef", 2}}));
  EXPECT_FALSE(Matches({{"ef", 1}}, {{"mode", "x"}}));
}

TEST(Schedule, EachOnceAndSpread) {
  const std::vector<std::size_t> counts = {4, 2, 1};
  const std::vector<Turn> turns = Schedule(counts, 0);
  ASSERT_EQ(turns.size(), 7u);
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const Turn& turn : turns) seen.insert({turn.system, turn.setting});
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(turns.front(), (Turn{0, 0}));
  EXPECT_EQ(turns.back(), (Turn{0, 3})) << "the system with many settings has both ends";
  EXPECT_EQ(turns[3], (Turn{2, 0})) << "the one with a single setting is in the middle";
}

TEST(Schedule, OddRoundsRunBackwards) {
  const std::vector<std::size_t> counts = {3, 5};
  std::vector<Turn> back = Schedule(counts, 1);
  std::reverse(back.begin(), back.end());
  EXPECT_EQ(Schedule(counts, 0), back);
  EXPECT_EQ(Schedule(counts, 0), Schedule(counts, 2));
}

}  // namespace
}  // namespace hmann::eval
