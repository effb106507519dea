#include "server/core/work_meter.h"

#include <gtest/gtest.h>

namespace hmann::server {
namespace {

using namespace std::chrono_literals;

Effort Wide(std::uint64_t width) { return {SearchMode::kGraph, width}; }

TEST(WorkMeter, GuessesUntilAQueryRan) {
  const WorkMeter meter;
  EXPECT_EQ(meter.Estimate(Wide(100)), 100us);
  EXPECT_EQ(meter.Estimate({SearchMode::kGraph, 100, 20us}), 20us);
}

TEST(WorkMeter, TheFirstTimeCountsInWholeOthersByPart) {
  WorkMeter meter;
  meter.Observe(Wide(100), 320us, true);
  EXPECT_EQ(meter.Estimate(Wide(100)), 320us);
  EXPECT_EQ(meter.Estimate(Wide(64)), 320us);  // same power of two
  meter.Observe(Wide(100), 160us, true);
  EXPECT_EQ(meter.Estimate(Wide(100)), 310us);
}

TEST(WorkMeter, AnUnseenWidthIsInProportionToTheNearest) {
  WorkMeter meter;
  meter.Observe(Wide(100), 100us, true);
  meter.Observe(Wide(10000), 1ms, true);
  EXPECT_EQ(meter.Estimate(Wide(200)), 200us);
  EXPECT_EQ(meter.Estimate(Wide(5000)), 500us);
  EXPECT_EQ(meter.Estimate(Wide(20000)), 2ms);
  EXPECT_EQ(meter.Estimate({SearchMode::kQuantized, 100}), 100us);  // another mode: a guess
}

TEST(WorkMeter, WhatWasCutOffOnlyRaisesIt) {
  WorkMeter meter;
  meter.Observe(Wide(100), 160us, true);
  meter.Observe(Wide(100), 16us, false);
  EXPECT_EQ(meter.Estimate(Wide(100)), 160us);
  meter.Observe(Wide(100), 320us, false);
  EXPECT_EQ(meter.Estimate(Wide(100)), 170us);
}

TEST(WorkMeter, HugeWidthsDoNotOverflow) {
  WorkMeter meter;
  meter.Observe(Wide(1), 1h, true);
  EXPECT_GT(meter.Estimate(Wide(~std::uint64_t{0})), 24h);
}

}  // namespace
}  // namespace hmann::server
