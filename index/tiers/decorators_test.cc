#include "index/tiers/testing/decorators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "index/tiers/testing/tier_fixture.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kBlocks = 64;

class Decorators : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status status = PlaceIn("nvme", source_.get()).status();
    if (absl::StrContains(status.message(), "refuses O_DIRECT")) GTEST_SKIP() << status;
  }
  Region Place(const std::string& spec) {
    auto region = PlaceIn(spec, source_.get());
    EXPECT_TRUE(region.ok()) << region.status();
    return region.ok() ? *std::move(region) : Region();
  }
  static std::unique_ptr<BlockReader> Reader(const Region& region, std::uint32_t depth = kBlocks) {
    auto reader = region.NewReader({.depth = depth, .frames = kBlocks, .frame_bytes = 4096});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  /// Blocks [begin, end), each into the frame with its number.
  static std::vector<BlockRead> Reads(std::uint32_t begin, std::uint32_t end) {
    std::vector<BlockRead> reads;
    for (std::uint32_t block = begin; block < end; ++block)
      reads.push_back({block * 4096u, 4096, block, block});
    return reads;
  }
  bool Right(const BlockReader& reader, std::uint32_t block) const {
    return SameBytes({reader.Frame(block), 4096}, source_.bytes().subspan(block * 4096, 4096));
  }

  Source source_{kBlocks * 4096};
};

TEST(SplitDecorator, TakesOneAtATimeAndLeavesPathsAlone) {
  using Halves = std::pair<std::string_view, std::string_view>;
  EXPECT_EQ(SplitDecorator("check+delay:5ms+nvme"), Halves("check", "delay:5ms+nvme"));
  EXPECT_EQ(SplitDecorator("delay:min=1ms,max=9ms,seed=3+nvme:/a+b"),
            Halves("delay:min=1ms,max=9ms,seed=3", "nvme:/a+b"));
  EXPECT_EQ(SplitDecorator("nvme:/check+b"), std::nullopt);
  EXPECT_EQ(SplitDecorator("checks+nvme"), std::nullopt);
  EXPECT_EQ(SplitDecorator("nvme"), std::nullopt);
}

TEST_F(Decorators, NameWhatIsWrongWithTheirSettings) {
  for (const char* wrong :
       {"delay+nvme", "delay:+nvme", "delay:5+nvme", "delay:min=2ms,max=1ms+nvme",
        "delay:after=5ms+nvme", "delay:min+nvme", "fail:0+nvme", "fail:every=0+nvme",
        "fail:every=x+nvme", "fail:every=+nvme", "stall+nvme", "stall:5+nvme",
        "stall:after=-1+nvme", "check:1+nvme", "count:x+nvme", "stall:after=1,every=2+nvme"}) {
    const absl::Status status = MakeTier(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong));
  }
}

TEST_F(Decorators, OnAddressableTiersThereIsOnlyFail) {
  for (const char* wrong : {"check+dram", "count+mapped", "delay:5ms+dram",
                            "stall:after=1+emulated:lat=1ns", "check+fail+dram"}) {
    EXPECT_EQ(MakeTier(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(std::string(MakeTier("delay:5ms+dram").status().message()),
              HasSubstr("use emulated:"));
  const absl::Status status = PlaceIn("fail+dram", source_.get()).status();
  EXPECT_EQ(status, absl::UnavailableError("tier fail+dram: fails to place, as was asked for"));
  const auto third = MakeTier("fail:every=3+dram");
  Progress silent(Progress::Show::kNever);
  for (int i = 1; i <= 6; ++i) EXPECT_EQ((*third)->Place(source_.get(), silent).ok(), i % 3 != 0);
}

TEST_F(Decorators, FailFailsTheReadsItSays) {
  const Region region = Place("fail:every=7+nvme");
  const auto reader = Reader(region);
  ASSERT_TRUE(reader->Submit(Reads(0, kBlocks)).ok());
  for (const BlockDone& done : WaitFor(*reader, kBlocks)) {
    const bool fails = (done.tag + 1) % 7 == 0;
    EXPECT_EQ(done.status.code(), fails ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk)
        << done.tag;
    EXPECT_THAT(std::string(done.status.message()),
                HasSubstr(fails ? absl::StrCat("offset ", done.tag * 4096) : ""));
    EXPECT_TRUE(fails || Right(*reader, done.frame));
  }
}

TEST_F(Decorators, CountTellsWhatWasRead) {
  const Region region = Place("count+fail:every=4+nvme");
  EXPECT_THAT(region.Where().ToString(),
              HasSubstr("counted 0 reads, 0 bytes, 0 failed, failing every 4, O_DIRECT from"));
  for (int i = 0; i < 2; ++i) {
    const auto reader = Reader(region);
    ASSERT_TRUE(reader->Submit(Reads(0, 10)).ok());
    WaitFor(*reader, 10);
  }
  EXPECT_THAT(region.Where().ToString(), HasSubstr("counted 20 reads, 81920 bytes, 5 failed"));
}

TEST_F(Decorators, DelayedReadsOvertakeOneAnother) {
  const Region region = Place("check+delay:min=0ms,max=40ms,seed=3+nvme");
  const auto reader = Reader(region);
  const auto begin = Clock::now();
  ASSERT_TRUE(reader->Submit(Reads(0, kBlocks)).ok());
  std::vector<std::uint64_t> tags;
  for (const BlockDone& done : WaitFor(*reader, kBlocks)) {
    EXPECT_TRUE(done.status.ok() && Right(*reader, done.frame));
    tags.push_back(done.tag);
  }
  EXPECT_FALSE(std::is_sorted(tags.begin(), tags.end()));
  EXPECT_EQ(std::set<std::uint64_t>(tags.begin(), tags.end()).size(), kBlocks);

  const auto later = Reader(Place("delay:20ms+nvme"));
  ASSERT_TRUE(later->Submit(Reads(0, 1)).ok());
  std::vector<BlockDone> done;
  ASSERT_TRUE(later->Wait(Clock::time_point::min(), &done).ok());
  EXPECT_TRUE(done.empty() || Clock::now() >= begin + std::chrono::milliseconds(20));
  EXPECT_EQ(WaitFor(*later, 1 - done.size()).size() + done.size(), 1u);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(20));
}

TEST_F(Decorators, StalledReadsHonourTheDeadlineAndTheDepth) {
  const Region region = Place("check+stall:after=5+nvme");
  auto reader = Reader(region, 12);
  auto taken = reader->Submit(Reads(0, 20));
  ASSERT_TRUE(taken.ok() && *taken == 12);
  EXPECT_EQ(WaitFor(*reader, 5).size(), 5u);
  EXPECT_EQ(reader->InFlight(), 7u);
  std::vector<BlockDone> done;
  const auto deadline = Clock::now() + std::chrono::milliseconds(20);
  ASSERT_TRUE(reader->Wait(deadline, &done).ok());
  EXPECT_GE(Clock::now(), deadline) << "it gave up early";
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(reader->InFlight(), 7u);
  const BlockRead into_stalled{0, 4096, 11, 99};
  EXPECT_FALSE(reader->Submit({&into_stalled, 1}).ok()) << "its frame is in flight";
  taken = reader->Submit(Reads(20, 40));
  EXPECT_TRUE(taken.ok() && *taken == 5) << "the depth counts what is stalled";
  ASSERT_TRUE(reader->Wait(Clock::time_point::min(), &done).ok());
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(reader->InFlight(), 12u);
  reader = nullptr;
  const auto second = Reader(region);
  ASSERT_TRUE(second->Submit(Reads(0, 1)).ok());
  ASSERT_TRUE(second->Wait(Clock::now() + std::chrono::milliseconds(5), &done).ok());
  EXPECT_TRUE(done.empty()) << "counted over all readers";
}

TEST_F(Decorators, CheckNamesWhatIsWrong) {
  auto region = std::make_unique<Region>(Place("check+nvme"));
  const auto reader = Reader(*region);
  const auto wrong = [&](const BlockRead& read) {
    const absl::Status status = reader->Submit({&read, 1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return std::string(status.message());
  };
  EXPECT_THAT(wrong({kBlocks * 4096, 4096, 0, 0}), HasSubstr("outside the region"));
  EXPECT_THAT(wrong({5, 4096, 0, 0}), HasSubstr("not a multiple of 512"));
  EXPECT_THAT(wrong({0, 4096, kBlocks, 0}), HasSubstr("not in a frame"));
  ASSERT_TRUE(reader->Submit(Reads(0, 1)).ok());
  EXPECT_THAT(wrong({4096, 4096, 0, 0}), HasSubstr("its frame is in flight"));
  EXPECT_EQ(WaitFor(*reader, 1).size(), 1u);
  EXPECT_TRUE(Right(*reader, 0));
  const auto twice = std::vector<BlockRead>{{0, 4096, 3, 0}, {4096, 4096, 3, 1}};
  EXPECT_THAT(std::string(reader->Submit(twice).status().message()), HasSubstr("named twice"));
  region = nullptr;
  EXPECT_THAT(wrong({0, 4096, 0, 0}), HasSubstr("its region is gone"));
}

TEST_F(Decorators, CheckLeavesRubbishInFramesUntilTheyAreDone) {
  const Region region = Place("check+stall:after=0+nvme");
  const auto reader = Reader(region);
  ASSERT_TRUE(reader->Submit(Reads(0, 1)).ok());
  std::vector<BlockDone> done;
  ASSERT_TRUE(reader->Wait(Clock::time_point::min(), &done).ok());
  EXPECT_TRUE(done.empty());
}

}  // namespace
}  // namespace hmann
