#include "index/search/drivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "index/search/best_first_walk.h"
#include "index/search/random_index.h"

namespace hmann {
namespace {

class Drivers : public testing::Test {
 protected:
  using Walk = BestFirstWalk;

  struct Seat {
    LayerScratch scratch;
    WalkCounters counters;
    Walk walk;
  };

  Drivers() : index_({.n = 2000, .n1 = 200, .m = 5, .dim = 7}), query_(index_.Query(0)), access_(index_.placed()) {}

  /// A walk over all of L0 from `node`; ends with the nearest `width`.
  void Start(Seat& seat, NodeId node, std::uint32_t width) {
    seat.counters = WalkCounters();
    seat.scratch.beam.Reset(width);
    seat.scratch.visited.Clear();
    seat.walk.OpenAt(index_.placed(), query_.data(), node, seat.scratch, seat.counters);
  }

  static std::vector<NodeId> Ids(const Seat& seat) {
    std::vector<NodeId> ids;
    for (std::uint32_t i = 0; i < seat.scratch.beam.size(); ++i) ids.push_back(seat.scratch.beam.id(i));
    return ids;
  }

  RandomIndex index_;
  std::vector<std::byte> query_;  ///< u8 under l2: as stored
  PlainAccess access_;
  RecordPointers records_;
};

TEST_F(Drivers, InterleavedWalksEndAsWalksOneByOne) {
  std::vector<Seat> seats(8);
  std::vector<Walk> walks(seats.size());
  const SearchLimits limits;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    Start(seats[i], static_cast<NodeId>(100 * i), static_cast<std::uint32_t>(1 + 5 * i));
    walks[i] = seats[i].walk;
  }
  StopCheck stop(limits);
  ASSERT_TRUE(DriveInterleaved(std::span(walks), index_.placed(), access_, records_, stop).ok());
  for (std::size_t i = 0; i < seats.size(); ++i) {
    EXPECT_TRUE(walks[i].Done());
    Seat alone;
    Start(alone, static_cast<NodeId>(100 * i), static_cast<std::uint32_t>(1 + 5 * i));
    ASSERT_TRUE(DriveDirect(alone.walk, index_.placed(), access_, records_, stop).ok());
    EXPECT_EQ(Ids(seats[i]), Ids(alone)) << "walk " << i;
    EXPECT_EQ(seats[i].counters.total.slow_touches, alone.counters.total.slow_touches) << "walk " << i;
  }
}

TEST_F(Drivers, ACancellationIsNoticedDuringTheWalk) {
  const std::atomic<bool> cancelled{true};
  const SearchLimits limits{.cancelled = &cancelled};
  Seat seat;
  Start(seat, 0, 2000);
  StopCheck stop(limits);
  EXPECT_EQ(DriveDirect(seat.walk, index_.placed(), access_, records_, stop).code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(seat.walk.Done());
  EXPECT_GT(seat.counters.total.expanded_l0, 0u) << "it had begun";
  EXPECT_LT(seat.counters.total.expanded_l0, 100u) << "and did not go on for long";

  Start(seat, 0, 2000);
  std::vector<Walk> walks = {seat.walk};
  StopCheck again(limits);
  EXPECT_EQ(DriveInterleaved(std::span(walks), index_.placed(), access_, records_, again).code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(walks[0].Done());
}

/// A driver that knows nothing but the face of a walk, and hands it copies that die after each Absorb.
TEST_F(Drivers, AWalkReadsNothingButTheRecordsItWanted) {
  Seat direct, copied;
  const SearchLimits limits;
  StopCheck stop(limits);
  Start(direct, 5, 60);
  ASSERT_TRUE(DriveDirect(direct.walk, index_.placed(), access_, records_, stop).ok());
  PlacedIndex without_l0 = index_.placed();
  without_l0.l0 = nullptr;
  copied.scratch.beam.Reset(60);
  copied.walk.OpenAt(without_l0, query_.data(), 5, copied.scratch, copied.counters);
  while (!copied.walk.Done()) {
    std::vector<std::vector<std::byte>> records;
    std::vector<const std::byte*> pointers;
    for (const NodeId id : copied.walk.Wanted()) {
      ASSERT_LT(id, 2000u);
      const std::byte* record = index_.placed().Record(id);
      records.emplace_back(record, record + index_.placed().records.RecordBytes(id));
    }
    for (const std::vector<std::byte>& record : records) pointers.push_back(record.data());
    copied.walk.Absorb(pointers);
  }
  EXPECT_EQ(Ids(copied), Ids(direct));
  EXPECT_EQ(copied.counters.total.distances_slow, direct.counters.total.distances_slow);
}

TEST_F(Drivers, UpcomingIsTheNearestNotYetExpanded) {
  Seat seat;
  Start(seat, 3, 50);
  const auto upcoming = [&seat] {
    std::vector<NodeId> ids;
    seat.walk.ForUpcoming([&ids](NodeId id) { ids.push_back(id); });
    return ids;
  };
  EXPECT_THAT(upcoming(), testing::IsEmpty());
  const std::byte* record = index_.placed().Record(3);
  seat.walk.Absorb({&record, seat.walk.Wanted().size()});
  ASSERT_EQ(seat.walk.Part(), RecordPart::kLinks);
  EXPECT_EQ(seat.walk.Wanted()[0], 3u);
  seat.walk.Absorb({&record, 1});
  EXPECT_EQ(seat.walk.Part(), RecordPart::kRow);
  EXPECT_THAT(upcoming(), testing::IsEmpty()) << "nothing else is scored yet";
}

}  // namespace
}  // namespace hmann
