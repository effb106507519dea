#include "eval/models/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eval/models/touch_log.h"
#include "index/base/random.h"

namespace hmann::eval {
namespace {

constexpr std::uint64_t kLines = 640;  // ten pages

std::unique_ptr<PlacementModel> Model(const std::string& name, double share = 0.1) {
  absl::StatusOr<std::unique_ptr<PlacementModel>> model =
      MakePlacement({name, share, kLines, {false, true}});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

/// Slow lines of a pass over the footprint; each line is its own query.
std::uint64_t SlowOfPass(PlacementModel& model) {
  std::uint64_t slow = 0;
  for (std::uint64_t line = 0; line < kLines; ++line) {
    model.NewQuery();
    slow += model.Slow(Part::kVector, 0, line) ? 1 : 0;
  }
  return slow;
}

TEST(Placement, DramAndSlowAreUniform) {
  EXPECT_EQ(SlowOfPass(*Model("dram")), 0u);
  EXPECT_EQ(SlowOfPass(*Model("slow")), kLines);
}

TEST(Placement, FastUpperLeavesLevelZeroSlowButForItsVectors) {
  const auto model = Model("fast-upper");
  for (const Part part : {Part::kLinks, Part::kLabel}) {
    EXPECT_TRUE(model->Slow(part, 0, 0));
    EXPECT_TRUE(model->Slow(part, 1, 0));
  }
  EXPECT_TRUE(model->Slow(Part::kVector, 0, 0));
  EXPECT_FALSE(model->Slow(Part::kVector, 1, 0));
  EXPECT_FALSE(model->Slow(Part::kUpperTable, 0, 0))
      << "the table is read for nodes of upper levels only";
  EXPECT_FALSE(model->Slow(Part::kUpperLinks, 1, 0));
}

TEST(Placement, FirstTouchHoldsWhatWasLoadedFirst) {
  const auto model = Model("first-touch", 0.3);
  for (int pass = 0; pass < 2; ++pass) {
    for (std::uint64_t line = 0; line < kLines; line += 64) {
      model->NewQuery();
      EXPECT_EQ(model->Slow(Part::kLinks, 0, line), line >= 3 * 64) << line;
    }
  }
  EXPECT_FALSE(model->Learns());
}

TEST(Placement, FirstTouchOfQueriesHoldsWhatTheyTouchedFirst) {
  const auto model = Model("first-touch-queries", 0.2);
  EXPECT_TRUE(model->Learns());
  EXPECT_FALSE(model->Slow(Part::kLinks, 0, 9 * 64 + 5));
  EXPECT_FALSE(model->Slow(Part::kLinks, 0, 4 * 64));
  EXPECT_TRUE(model->Slow(Part::kLinks, 0, 0));
  EXPECT_FALSE(model->Slow(Part::kLinks, 0, 9 * 64));
}

TEST(Placement, ALoopThatFitsIsFastInTheSteadyStateAndOneThatDoesNotIsSlow) {
  for (const char* name : {"memory-mode", "memory-mode-lru"}) {
    const auto whole = Model(name, 1.0), half = Model(name, 0.5);
    EXPECT_EQ(SlowOfPass(*whole), kLines) << "cold";
    EXPECT_EQ(SlowOfPass(*whole), 0u);
    SlowOfPass(*half);
    EXPECT_EQ(SlowOfPass(*half), kLines) << name << ": twice the capacity, in a loop: never a hit";
  }
}

TEST(Placement, ALineIsAskedForOnceAQuery) {
  const auto model = Model("memory-mode", 1.0);
  model->NewQuery();
  EXPECT_TRUE(model->Slow(Part::kVector, 0, 7));
  EXPECT_TRUE(model->Slow(Part::kVector, 0, 7))
      << "the model has it now, but this query had to fetch it";
  model->NewQuery();
  EXPECT_FALSE(model->Slow(Part::kVector, 0, 7));
}

TEST(Placement, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(std::string(MakePlacement({"nowhere", 0.1, 1, {}}).status().message()),
              testing::HasSubstr("memory-mode-lru"));
  EXPECT_FALSE(MakePlacement({"memory-mode", 0, 1, {}}).ok());
  EXPECT_FALSE(MakePlacement({"memory-mode", 1.5, 1, {}}).ok());
  for (const std::string name : kPlacements)
    EXPECT_TRUE(MakePlacement({name, 0.5, 100, {}}).ok()) << name;
}

TEST(TouchLog, GivesBackWhatItWasToldInPiecesOfAnyLength) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    TouchLog log;
    const auto count = [&](std::uint64_t i) {
      return static_cast<std::uint32_t>(1 + RandomBelow(seed, 2 * i, 64));
    };
    const auto bits = [&](std::uint64_t i) { return Random(seed, 2 * i + 1) >> (64 - count(i)); };
    for (std::uint64_t i = 0; i < 1000; ++i) {
      log.Append(bits(i), count(i));
    }
    TouchLog::Reader reader(log);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      EXPECT_FALSE(reader.AtEnd());
      ASSERT_EQ(reader.Take(count(i)), bits(i)) << "seed " << seed << ", piece " << i;
    }
    EXPECT_TRUE(reader.AtEnd());
  }
}

}  // namespace
}  // namespace hmann::eval
