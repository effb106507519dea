#include "index/search/block_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

namespace hmann {
namespace {

/// Accepts reads and completes them on request. The tests check what the queue does in
/// between.
class ManualReader : public BlockReader {
 public:
  explicit ManualReader(std::uint32_t depth)
      : BlockReader({.depth = depth, .frames = 64, .frame_bytes = 4096}) {}
  std::byte* Frame(std::uint32_t) const override { return nullptr; }
  std::uint32_t InFlight() const override { return static_cast<std::uint32_t>(tags_.size()); }
  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    if (refuses_) return absl::InternalError("no");
    for (const BlockRead& read : reads) tags_.push_back(read.tag);
    return reads.size();
  }
  absl::Status Wait(std::chrono::steady_clock::time_point, std::vector<BlockDone>*) override {
    return absl::OkStatus();
  }

  /// Completes the read that was started first.
  std::uint64_t EndFirst() {
    const std::uint64_t tag = tags_.front();
    tags_.erase(tags_.begin());
    return tag;
  }
  const std::vector<std::uint64_t>& tags() const { return tags_; }
  bool refuses_ = false;

 private:
  std::vector<std::uint64_t> tags_;
};

BlockRead Read(std::uint64_t tag) {
  return {
      .offset = tag * 4096, .bytes = 4096, .frame = static_cast<std::uint32_t>(tag), .tag = tag};
}

TEST(BlockQueue, DemandGoesFirstAndEachClassInOrderOfArrival) {
  ManualReader reader(8);
  BlockQueue queue(&reader);
  for (const std::uint64_t tag : {1, 2, 3, 4, 5}) queue.Push(Read(tag), tag % 2 == 1);
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{2, 4, 1, 3, 5}));
  EXPECT_TRUE(queue.empty());
}

TEST(BlockQueue, ReadsAheadTakeAtMostHalfOfThePlaces) {
  ManualReader reader(4);
  BlockQueue queue(&reader);
  for (std::uint64_t tag = 0; tag < 6; ++tag) queue.Push(Read(tag), true);
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{0, 1}));
  queue.Push(Read(10), false);
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{0, 1, 10})) << "demand finds a place";
  queue.NoteDone(reader.EndFirst());
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{1, 10, 2}));
}

TEST(BlockQueue, AReadAheadThatIsWaitedForBecomesDemand) {
  ManualReader reader(2);
  BlockQueue queue(&reader);
  for (std::uint64_t tag = 0; tag < 4; ++tag) queue.Push(Read(tag), true);
  EXPECT_TRUE(queue.MakeDemand(3));
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{3, 0}));
  EXPECT_FALSE(queue.MakeDemand(3)) << "it is on its way";
}

TEST(BlockQueue, NothingIsLostWhenTheRingRefuses) {
  ManualReader reader(4);
  BlockQueue queue(&reader);
  for (std::uint64_t tag = 0; tag < 3; ++tag) queue.Push(Read(tag), tag == 0);
  reader.refuses_ = true;
  EXPECT_EQ(queue.Pump().code(), absl::StatusCode::kInternal);
  reader.refuses_ = false;
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{1, 2, 0}));
}

TEST(BlockQueue, RemovedReadsAreNotStarted) {
  ManualReader reader(8);
  BlockQueue queue(&reader);
  for (std::uint64_t tag = 0; tag < 6; ++tag) queue.Push(Read(tag), false);
  queue.Remove([](std::uint64_t tag) { return tag % 2 == 0; });
  ASSERT_TRUE(queue.Pump().ok());
  EXPECT_EQ(reader.tags(), (std::vector<std::uint64_t>{1, 3, 5}));
}

/// Random pushes, completions and promotions: never over the depth, never over the half,
/// every read started once.
TEST(BlockQueue, KeepsItsRulesUnderAnyOrderOfEvents) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    ManualReader reader(1 + static_cast<std::uint32_t>(seed % 9));
    BlockQueue queue(&reader);
    std::uint64_t next = 0, state = seed;
    std::vector<int> started(400);
    std::vector<bool> ahead(400);
    const auto random = [&](std::uint64_t below) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % below;
    };
    std::size_t seen = 0;
    for (int step = 0; step < 2000 && (next < 400 || reader.InFlight() > 0 || !queue.empty());
         ++step) {
      for (std::uint64_t i = random(4); i > 0 && next < 400; --i, ++next) {
        ahead[next] = random(2) == 0;
        queue.Push(Read(next), ahead[next]);
      }
      const std::size_t before = reader.InFlight();
      ASSERT_TRUE(queue.Pump().ok());
      for (std::size_t i = before; i < reader.tags().size(); ++i) {
        ++started[reader.tags()[i]];
        ++seen;
      }
      ASSERT_LE(reader.InFlight(), reader.options().depth) << "seed " << seed;
      std::uint32_t reads_ahead = 0;
      for (const std::uint64_t tag : reader.tags()) reads_ahead += ahead[tag] ? 1 : 0;
      ASSERT_LE(reads_ahead, std::max(1u, reader.options().depth / 2)) << "seed " << seed;
      if (reader.InFlight() > 0) queue.NoteDone(reader.EndFirst());
    }
    EXPECT_EQ(seen, 400u) << "seed " << seed;
    for (const int times : started) EXPECT_EQ(times, 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hmann
