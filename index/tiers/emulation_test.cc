#include "index/tiers/emulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <thread>

#include "index/tiers/testing/tier_fixture.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

/// A clock that advances only when a caller waits, so that measurements are exact.
struct StillClock {
  std::uint64_t* now;

  std::uint64_t Now() const { return *now; }
  void SpinUntil(std::uint64_t tick) const { *now = std::max(*now, tick); }
};

/// One tick a nanosecond, a latency of 1000 ticks, and 64 ticks a line where there is a
/// bandwidth limit.
class Emulation : public ::testing::Test {
 protected:
  using Lines = BasicEmulatedLines<StillClock>;

  static constexpr std::uint64_t kOrigin = 1u << 30;
  static constexpr std::uint64_t kGBs = 1000000000;

  static const std::byte* Line(std::uint64_t number) {
    return reinterpret_cast<const std::byte*>((1ull << 40) + number * 64);
  }
  std::uint64_t Elapsed() const { return now_ - kOrigin; }
  Lines On(EmulatedBus& bus) { return Lines(&bus, StillClock{&now_}); }

  std::uint64_t now_ = kOrigin;
  EmulatedBus bus_{{.latency_ns = 1000, .lines = 12}, 1.0, kOrigin};
};

TEST_F(Emulation, IndependentFetchesCostOneLatency) {
  Lines lines = On(bus_);
  for (std::uint64_t i = 0; i < 10; ++i) lines.Fetch(Line(i * 100), 64);
  EXPECT_EQ(Elapsed(), 0u) << "a prefetch does not wait";
  for (std::uint64_t i = 0; i < 10; ++i) lines.Use(Line(i * 100), 64);
  EXPECT_EQ(Elapsed(), 1000u);
  EXPECT_EQ(lines.ticks_waited(), 1000u);
  EXPECT_EQ(lines.lines_fetched(), 10u);
}

TEST_F(Emulation, DependentOnesCostOneEach) {
  Lines lines = On(bus_);
  for (std::uint64_t i = 0; i < 10; ++i) lines.Use(Line(i * 100), 64);
  EXPECT_EQ(Elapsed(), 10000u);
}

TEST_F(Emulation, AUseWaitsForWhatIsLeft) {
  Lines lines = On(bus_);
  lines.Fetch(Line(0), 64);
  now_ += 400;
  EXPECT_FALSE(lines.Arrived(Line(0), 64));
  lines.Use(Line(0), 64);
  EXPECT_EQ(lines.ticks_waited(), 600u);
  lines.Fetch(Line(100), 64);
  now_ += 5000;
  EXPECT_TRUE(lines.Arrived(Line(100), 64));
  lines.Use(Line(100), 64);
  EXPECT_EQ(lines.ticks_waited(), 600u) << "it was there";
}

TEST_F(Emulation, ARecordIsAllItsLinesTogether) {
  Lines lines = On(bus_);
  lines.Use(Line(0) + 60, 8);
  EXPECT_EQ(lines.lines_fetched(), 2u) << "touched, not filled";
  lines.Use(Line(100), 64 * 11);
  EXPECT_EQ(lines.lines_fetched(), 13u);
  EXPECT_EQ(Elapsed(), 2000u);
  lines.Use(Line(200), 0);
  EXPECT_EQ(lines.lines_fetched(), 13u);
}

TEST_F(Emulation, BeyondTheLinesOfACoreAFetchStalls) {
  EmulatedBus bus({.latency_ns = 1000, .lines = 2}, 1.0, kOrigin);
  Lines lines = On(bus);
  lines.Fetch(Line(0), 64);
  EXPECT_TRUE(lines.HasRoom());
  lines.Fetch(Line(100), 64);
  EXPECT_FALSE(lines.HasRoom());
  EXPECT_EQ(Elapsed(), 0u);
  lines.Fetch(Line(200), 64);
  EXPECT_EQ(Elapsed(), 1000u) << "until the first has come";
  lines.Use(Line(200), 64);
  EXPECT_EQ(Elapsed(), 2000u);
  EXPECT_TRUE(lines.HasRoom());
  lines.Use(Line(300), 5 * 64);
  EXPECT_EQ(Elapsed(), 5000u) << "five lines through two are three latencies";
}

TEST_F(Emulation, QueriesInTurnShareTheLinesOfTheirCore) {
  EmulatedBus bus({.latency_ns = 1000, .lines = 2}, 1.0, kOrigin);
  OutstandingLines core;
  Lines one(&bus, {&now_}, &core), other(&bus, {&now_}, &core);
  one.Fetch(Line(0), 64);
  other.Fetch(Line(100), 64);
  EXPECT_FALSE(one.HasRoom());
  EXPECT_FALSE(other.HasRoom());
  other.Fetch(Line(200), 64);
  EXPECT_EQ(Elapsed(), 1000u) << "until the first has come, whosever it was";
  other.Clear();
  one.Use(Line(0), 64);
  EXPECT_EQ(Elapsed(), 1000u) << "the other's new query leaves what is here";
  other.Use(Line(100), 64);
  EXPECT_EQ(Elapsed(), 2000u) << "and forgets its own";
}

TEST_F(Emulation, TheBusIsOneForAll) {
  EmulatedBus bus({.latency_ns = 1000, .bytes_per_second = kGBs, .lines = 12}, 1.0, kOrigin);
  Lines one = On(bus), other = On(bus);
  one.Fetch(Line(0), 10 * 64);
  other.Use(Line(100), 64);
  EXPECT_EQ(Elapsed(), 10 * 64 + 1000u) << "ten lines of the other thread pass first";
  one.Use(Line(0), 10 * 64);
  EXPECT_EQ(Elapsed(), 10 * 64 + 1000u);
  now_ += 100000;
  other.Use(Line(300), 2 * 64);
  EXPECT_EQ(Elapsed(), 10 * 64 + 1000u + 100000 + 64 + 1000) << "an idle bus saves nothing up";
}

TEST_F(Emulation, FractionsOfATickAddUp) {
  EmulatedBus bus({.latency_ns = 0, .bytes_per_second = 95 * kGBs, .lines = 64}, 2.0, kOrigin);
  Lines lines = On(bus);
  for (std::uint64_t i = 0; i < 100000; ++i) lines.Fetch(Line(i * 8), 64 * 8);
  lines.Use(Line(8 * 99999), 64 * 8);
  const double expected = 100000 * 8 * 64 / 95.0 * 2.0;
  EXPECT_NEAR(static_cast<double>(Elapsed()), expected, expected * 0.005);
}

TEST_F(Emulation, WhatHasArrivedIsInTheCacheUntilClear) {
  Lines lines = On(bus_);
  for (int i = 0; i < 5; ++i) lines.Use(Line(0), 128);
  EXPECT_EQ(Elapsed(), 1000u);
  lines.Use(Line(1), 128);
  EXPECT_EQ(Elapsed(), 2000u) << "half of it is new";
  EXPECT_EQ(lines.lines_fetched(), 3u);
  lines.Clear();
  EXPECT_FALSE(lines.Arrived(Line(0), 64));
  lines.Use(Line(0), 64);
  EXPECT_EQ(Elapsed(), 3000u);
}

TEST_F(Emulation, TheSpinsOwnLatenessIsTakenOff) {
  EmulatedBus bus({.latency_ns = 1000, .lines = 12}, 1.0, kOrigin);
  bus.spin_ticks = 30;
  Lines lines = On(bus);
  lines.Use(Line(0), 64);
  EXPECT_EQ(Elapsed(), 970u);
  EXPECT_EQ(lines.ticks_waited(), 1000u);
}

TEST_F(Emulation, FetchedLinesAreThoseOfTheNewestStretches) {
  FetchedLines fetched;
  std::deque<std::uint64_t> order;
  std::map<std::uint64_t, std::uint32_t> reference;
  for (std::uint64_t step = 0; step < 40000; ++step) {
    const std::uint64_t stretch = (1ull << 34) + RandomBelow(1, step, 3 * FetchedLines::kMost) *
                                                     RandomBelow(2, step / 10000, 5000);
    const auto lines = static_cast<std::uint32_t>(1 + RandomBelow(3, step, 255));
    if (!reference.contains(stretch)) {
      if (order.size() == FetchedLines::kMost) {
        reference.erase(order.front());
        order.pop_front();
      }
      order.push_back(stretch);
    }
    ASSERT_EQ(fetched.Find(stretch, lines), reference[stretch] & lines);
    ASSERT_EQ(fetched.Insert(stretch, lines), lines & ~reference[stretch]) << "step " << step;
    reference[stretch] |= lines;
    if (step % 15000 == 14999) {
      fetched.Clear();
      order.clear();
      reference.clear();
    }
  }
  for (const auto& [stretch, lines] : reference) EXPECT_EQ(fetched.Find(stretch, 255), lines);
}

TEST(EmulationSpec, ReadsAndPrintsItsSettings) {
  const auto spec = EmulationSpec::Parse("lat=300ns,bw=6GB/s,lines=16");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->latency_ns, 300u);
  EXPECT_EQ(spec->bytes_per_second, 6000000000u);
  EXPECT_EQ(spec->lines, 16u);
  for (const char* text : {"lat=300ns,bw=6GB/s,lines=16", "lat=0ns,lines=12",
                           "lat=20000ns,bw=500MiB/s,lines=1", "lat=1ns,bw=1234567B/s,lines=64"}) {
    EXPECT_EQ(EmulationSpec::Parse(text)->ToString(), text);
  }
  EXPECT_EQ(EmulationSpec::Parse("bw=3200MB/s,lat=20us")->ToString(),
            "lat=20000ns,bw=3200MB/s,lines=12");
}

TEST(EmulationSpec, PresetsNameTheirSource) {
  EXPECT_THAT(EmulationSpec::Parse("optane")->ToString(),
              HasSubstr("lat=217ns,bw=35GB/s,lines=12 (optane: Optane PMM"));
  EXPECT_THAT(EmulationSpec::Parse("cxl,lines=20")->ToString(),
              HasSubstr("lat=210ns,lines=20 (cxl: "));
  EXPECT_EQ(EmulationSpec::Parse("cxl,lat=1us")->ToString(), "lat=1000ns,lines=12")
      << "changed: the source is not answerable any more";
}

TEST(EmulationSpec, NamesTheWrongField) {
  for (const auto& [text, why] :
       std::map<std::string, std::string>{{"", "optane"},
                                          {"bw=6GB/s", "lat: expected a time"},
                                          {"lat=300", "lat: "},
                                          {"lat=1s", "at most 100ms"},
                                          {"lat=1ns,bw=6GB", "/s"},
                                          {"lat=1ns,bw=0B/s", "1MB/s"},
                                          {"lat=1ns,bw=x/s", "bw: "},
                                          {"lat=1ns,lines=0", "1 to 64"},
                                          {"lat=1ns,lines=65", "1 to 64"},
                                          {"lat=1ns,optane", "first"},
                                          {"lat=1ns,", "expected lat"},
                                          {"nvdimm", "expected lat"}}) {
    const absl::Status status = EmulationSpec::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << text;
    EXPECT_EQ(MakeTier(absl::StrCat("emulated:", text)).status(), status);
  }
}

TEST(TickClock, RefusesATscThatIsNotConstant) {
  EXPECT_TRUE(CheckConstantTsc(
                  "processor\t: 0\nflags\t\t: fpu tsc constant_tsc rep_good nonstop_tsc cpuid\n")
                  .ok());
  absl::Status status = CheckConstantTsc("flags\t\t: fpu tsc constant_tsc cpuid\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nonstop_tsc"));
  EXPECT_THAT(std::string(CheckConstantTsc("flags : nonstop_tsc not_constant_tsc\n").message()),
              HasSubstr("constant_tsc"));
  EXPECT_FALSE(CheckConstantTsc("").ok());
}

TEST(TickClock, RefusesATscThatDrifts) {
  EXPECT_TRUE(CheckDrift(std::vector{2.5, 2.5001, 2.4999}).ok());
  const absl::Status status = CheckDrift(std::vector{2.5, 2.51, 2.5});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2.5 to 2.51 ticks per ns"));
  EXPECT_FALSE(CheckDrift({}).ok());
  EXPECT_FALSE(CheckDrift(std::vector{0.0, 0.0}).ok());
}

TEST(EmulatedTier, WaitsOnTheRealClock) {
  const Source source(64_KiB);
  const auto region = PlaceIn("emulated:lat=50us,bw=6GB/s", source.get());
  ASSERT_TRUE(region.ok()) << region.status();
  EmulatedBus* bus = region->emulated();
  ASSERT_NE(bus, nullptr);
  EXPECT_GT(bus->ticks_per_ns, 0.01);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      EmulatedLines lines(bus);
      for (int i = 0; i < 20; ++i) {
        const auto begin = Clock::now();
        lines.Use(region->data() + i * 1024, 128);
        EXPECT_GE(Clock::now() - begin, std::chrono::microseconds(49));
        EXPECT_TRUE(lines.Arrived(region->data() + i * 1024, 128));
      }
      EXPECT_EQ(lines.lines_fetched(), 40u);
      EXPECT_GT(lines.ticks_waited(), 0u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EmulatedTier, ItsRegionsShareTheBus) {
  const auto tier = MakeTier("emulated:lat=100ns");
  ASSERT_TRUE(tier.ok()) << tier.status();
  const Source source(4096);
  Progress silent(Progress::Show::kNever);
  const auto one = (*tier)->Place(source.get(), silent),
             other = (*tier)->Place(source.get(), silent);
  EXPECT_EQ(one->emulated(), other->emulated());
}

}  // namespace
}  // namespace hmann
