#include "eval/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace hmann {
namespace {

/// Settings with recalls, each with a time per round.
ContestantRuns Runs(const std::string& name,
                    const std::vector<std::pair<double, std::vector<double>>>& settings) {
  ContestantRuns runs;
  runs.name = name;
  for (const auto& [recall, seconds] : settings) {
    runs.settings.push_back({{{"ef", runs.settings.size()}},
                             nullptr,
                             std::vector<double>(seconds.size(), recall),
                             seconds,
                             seconds});
  }
  return runs;
}

const Reading kReading = {.queries = 1000,
                          .k = 10,
                          .clock = RunClock::kWall,
                          .targets = {0.9, 0.99},
                          .reference = "slow"};

TEST(Figures, RatiosAreWithinARound) {
  // The machine is twice as slow in round 1, for both: the ratio does not see it.
  const std::vector<ContestantFigures> figures =
      Read({Runs("slow", {{0.9, {1, 2, 1}}, {0.99, {4, 8, 4}}}),
            Runs("fast", {{0.9, {0.5, 1, 0.5}}, {0.99, {1, 2, 1}}})},
           kReading);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_DOUBLE_EQ(*figures[0].targets[0].qps, 1000);
  EXPECT_DOUBLE_EQ(*figures[0].targets[0].ratio, 1);
  EXPECT_NEAR(*figures[1].targets[0].ratio, 2, 1e-9);
  EXPECT_NEAR(*figures[1].targets[1].ratio, 4, 1e-9);
  EXPECT_NEAR(*figures[1].targets[1].ratio_mad, 0, 1e-9);
  EXPECT_NEAR(*figures[1].targets[1].qps, 1000, 1e-9) << "the median round";
}

TEST(Figures, OneLuckyRunDoesNotMakeAFront) {
  // Setting 1 is slower than setting 0 but for one round.
  const std::vector<ContestantFigures> figures =
      Read({Runs("x", {{0.95, {1, 1, 1}}, {0.95, {2, 0.1, 2}}})}, kReading);
  EXPECT_TRUE(figures[0].points[0].front);
  EXPECT_FALSE(figures[0].points[1].front);
  EXPECT_DOUBLE_EQ(*figures[0].targets[0].qps, 1000);
  EXPECT_DOUBLE_EQ(*figures[0].targets[0].at_recall, 0.95) << "nothing was measured at 0.9";
}

TEST(Figures, WhatIsNotReachedHasNoValue) {
  const std::vector<ContestantFigures> figures =
      Read({Runs("slow", {{0.9, {1}}, {0.999, {4}}}), Runs("low", {{0.91, {1}}})}, kReading);
  EXPECT_FALSE(figures[1].targets[1].qps.has_value());
  EXPECT_FALSE(figures[1].targets[1].ratio.has_value());
  EXPECT_TRUE(figures[0].targets[1].ratio.has_value());
}

TEST(Figures, WithoutTheReferenceThereAreNoRatios) {
  const std::vector<ContestantFigures> figures = Read({Runs("alone", {{0.95, {1}}})}, kReading);
  EXPECT_TRUE(figures[0].targets[0].qps.has_value());
  EXPECT_FALSE(figures[0].targets[0].ratio.has_value());
}

TEST(Figures, TheClockIsTheOneAskedFor) {
  ContestantRuns runs = Runs("x", {{0.95, {2, 2, 2}}});
  runs.settings[0].cpu_seconds = {1, 1, 1};
  Reading reading = kReading;
  EXPECT_DOUBLE_EQ(Read({runs}, reading)[0].points[0].qps, 500);
  reading.clock = RunClock::kCpu;
  EXPECT_DOUBLE_EQ(Read({runs}, reading)[0].points[0].qps, 1000);
  EXPECT_DOUBLE_EQ(Read({runs}, reading)[0].wall_over_cpu, 2);
}

TEST(Figures, CountersAreReadAlongTheFront) {
  ContestantRuns runs = Runs("x", {{0.9, {1}}, {0.99, {10}}, {0.95, {100}}});
  runs.settings[0].counters = {{"slow_reads", 100}};
  runs.settings[1].counters = {{"slow_reads", 1000}};
  runs.settings[2].counters = {{"slow_reads", 1e6}};  // beaten by setting 1: not on the front
  const ContestantFigures figures = Read({runs}, kReading)[0];
  EXPECT_NEAR(*CounterAtRecall(figures, "slow_reads", 0.9, kReading), 100, 1e-6);
  EXPECT_NEAR(*CounterAtRecall(figures, "slow_reads", 1 - std::sqrt(0.001), kReading),
              std::sqrt(1e5), 1e-6);
  EXPECT_FALSE(CounterAtRecall(figures, "slow_reads", 0.999, kReading).has_value());
  EXPECT_FALSE(CounterAtRecall(figures, "no such counter", 0.9, kReading).has_value());
}

TEST(Figures, WhatRunsToldIsReadAlongTheFrontByMedians) {
  ContestantRuns runs = Runs("x", {{0.9, {1, 1, 1}}, {0.99, {10, 10, 10}}});
  runs.settings[0].observed["p99_us"] = {90, 100, 900};
  runs.settings[1].observed["p99_us"] = {1000, 999, 5000};
  const ContestantFigures figures = Read({runs}, kReading)[0];
  EXPECT_EQ(figures.points[0].observed.at("p99_us"), 100);
  EXPECT_NEAR(*ObservedAtRecall(figures, "p99_us", 1 - std::sqrt(0.001), kReading), std::sqrt(1e5),
              1e-6);
  EXPECT_FALSE(ObservedAtRecall(figures, "p50_us", 0.9, kReading).has_value());
}

TEST(Figures, ACounterCanStandForTheClock) {
  // By time the second is beaten by the third; by distances it is not.
  ContestantRuns runs = Runs("x", {{0.9, {1}}, {0.95, {10}}, {0.96, {5}}, {0.99, {20}}});
  for (std::size_t i = 0; i < 3; ++i)
    runs.settings[i].counters = {{"distances", 100 * static_cast<double>(i + 1)}};
  const ContestantRuns counted = ByCounter(runs, "distances", kReading);
  ASSERT_EQ(counted.settings.size(), 3u) << "the fourth was not counted";
  const ContestantFigures figures = Read({counted}, kReading)[0];
  EXPECT_TRUE(figures.points[1].front);
  EXPECT_NEAR(1 / *figures.targets[0].qps, 100, 1e-9);
  EXPECT_TRUE(ByCounter(runs, "no such counter", kReading).settings.empty());
}

TEST(Figures, TheFirstAnswerIsAReadingOfItsOwn) {
  ContestantRuns runs = Runs("x", {{0.9, {1}}, {0.99, {10}}});
  runs.settings[0].recall_at_1 = {0.97};
  runs.settings[1].recall_at_1 = {1.0};
  Reading reading = kReading;
  reading.k = 1;
  reading.targets = {0.97};
  EXPECT_DOUBLE_EQ(*Read({ByFirstAnswer(runs)}, reading)[0].targets[0].qps, 1000);
  EXPECT_LT(*Read({runs}, reading)[0].targets[0].qps, 1000);
}

TEST(Figures, DialsAreWhatDecidesTheWorkOfAQuery) {
  EXPECT_EQ(SettingWithoutThreads({{"ef", 40}, {"threads", 2}, {"in_flight", 8}}),
            Json({{"ef", 40}, {"in_flight", 8}}));
  EXPECT_EQ(SettingWithoutThreads({{"ef", 40}}), Json({{"ef", 40}}));
}

TEST(Figures, FilterKeepsSomeSettings) {
  const ContestantRuns kept = Filter(Runs("x", {{0.9, {1}}, {0.99, {10}}}), "y", {{"ef", 1}});
  EXPECT_EQ(kept.name, "y");
  ASSERT_EQ(kept.settings.size(), 1u);
  EXPECT_EQ(kept.settings[0].recall[0], 0.99);
}

TEST(Schedule, EachOnceAndSpread) {
  const std::vector<std::size_t> counts = {4, 2, 1};
  const std::vector<Turn> turns = Schedule(counts, 0);
  ASSERT_EQ(turns.size(), 7u);
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const Turn& turn : turns) seen.insert({turn.contestant, turn.setting});
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(turns.front(), (Turn{0, 0}));
  EXPECT_EQ(turns.back(), (Turn{0, 3})) << "the contestant with many settings has both ends";
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
}  // namespace hmann
