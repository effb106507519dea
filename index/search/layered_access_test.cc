/// The layers between a traversal and slow memory, each alone and all together.
#include "index/search/layered_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "index/search/access.h"
#include "index/search/cache_fill.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

/// So slow that even on a busy machine its fetches do not arrive during a test.
const EmulationSpec kNever{.latency_ns = 3'600'000'000'000, .lines = 4};

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// The bytes of the part of the record at `record` that Ask fetched.
std::vector<std::byte> PartOf(const PlacedIndex& index, NodeId id, RecordPart part,
                              const std::byte* record) {
  std::vector<std::byte> bytes;
  for (const RecordExtent& extent : index.Extents(id, part)) {
    bytes.insert(bytes.end(), record + extent.offset, record + extent.offset + extent.bytes);
  }
  return bytes;
}

/// Everything below the layers: an index of random links, and a beam of candidates from
/// L1.
class AccessLayers : public testing::Test {
 protected:
  AccessLayers() : index_({.n = 2000, .n1 = 300, .m = 8, .dim = 60}), placed_(index_.placed()) {}

  Beam Found(const std::vector<NodeId>& nearest_first) const {
    Beam beam;
    beam.Reset(100);
    for (std::size_t i = 0; i < nearest_first.size(); ++i)
      beam.Insert(static_cast<DistanceKey>(i), nearest_first[i]);
    return beam;
  }
  /// The nodes that the links of a promoted node lead to and that L1 does not have.
  std::vector<NodeId> RowsBehind(NodeId id) const {
    std::vector<NodeId> rows;
    std::vector<NodeId> links(placed_.records.max_links);
    placed_.Links(id, placed_.Record(id), links.data());
    for (std::uint32_t i = 0; i < placed_.records.max_links && links[i] < placed_.layers.n(); ++i) {
      if (links[i] >= placed_.n1()) rows.push_back(links[i]);
    }
    return rows;
  }
  std::uint64_t BytesOf(NodeId id, RecordPart part) const { return placed_.Bytes(id, part).size(); }

  RandomIndex index_;
  PlacedIndex placed_;
  Counters counts_;
};

TEST_F(AccessLayers, RealMemoryHasAlwaysRoomAndNobodyCanTellWhatIsHere) {
  SlowMemory memory(nullptr);
  const auto bytes = placed_.Bytes(0, RecordPart::kLinks);
  EXPECT_TRUE(memory.Arrived(bytes));
  for (NodeId id = 0; id < 100; ++id) memory.Fetch(placed_.Bytes(id, RecordPart::kLinks));
  EXPECT_TRUE(memory.HasRoom());
}

TEST_F(AccessLayers, AnEmulatedTierIsToldOfEveryTouch) {
  EmulatedBus never(kNever, 1, TickClock().Now());
  SlowMemory slow(&never);
  for (NodeId id = 0; slow.HasRoom(); id += 10) {
    ASSERT_LT(id, 10 * kNever.lines) << "each fetch takes a line";
    slow.Fetch(placed_.Bytes(id, RecordPart::kLinks));
    EXPECT_FALSE(slow.Arrived(placed_.Bytes(id, RecordPart::kLinks)));
  }
  EmulatedBus soon({.latency_ns = 1000}, 1, TickClock().Now());
  SlowMemory memory(&soon);
  const auto bytes = placed_.Bytes(1999, RecordPart::kRow);
  EXPECT_FALSE(memory.Arrived(bytes)) << "nobody has asked for it";
  memory.Use(bytes);
  EXPECT_TRUE(memory.Arrived(bytes));
  memory.Begin();
  EXPECT_FALSE(memory.Arrived(bytes)) << "forgotten with the query";
}

TEST_F(AccessLayers, CachedRecordsAreCopiesThatLiveSideBySide) {
  SlowMemory memory(nullptr);
  CachedRecords none(placed_, 4, memory, counts_);
  none.Missed(1);
  none.Settle();
  EXPECT_EQ(none.Find(1, RecordPart::kRow, 0), nullptr);
  const auto cache = *MakeRecordCache(placed_, std::uint64_t{200} * placed_.MostRecordBytes(),
                                      CachePolicy::kDynamic);
  placed_.cache = cache.get();
  CachedRecords cached(placed_, 4, memory, counts_);
  EXPECT_EQ(cached.Find(400, RecordPart::kRow, 0), nullptr);
  EXPECT_EQ(counts_.cache_hits, 0u);
  for (const NodeId id : {400u, 1999u, 5u}) cached.Missed(id);
  EXPECT_EQ(cached.Find(400, RecordPart::kRow, 0), nullptr) << "copied at the next step";
  cached.Settle();
  const std::byte* first = cached.Find(400, RecordPart::kRow, 0);
  const std::byte* second = cached.Find(1999, RecordPart::kRow, 1);
  const std::byte* third = cached.Find(5, RecordPart::kLinks, 3);
  ASSERT_TRUE(first != nullptr && second != nullptr && third != nullptr);
  EXPECT_TRUE(
      Same(PartOf(placed_, 400, RecordPart::kRow, first), placed_.Bytes(400, RecordPart::kRow)));
  EXPECT_TRUE(
      Same(PartOf(placed_, 1999, RecordPart::kRow, second), placed_.Bytes(1999, RecordPart::kRow)));
  EXPECT_TRUE(
      Same(PartOf(placed_, 5, RecordPart::kLinks, third), placed_.Bytes(5, RecordPart::kLinks)));
  EXPECT_EQ(counts_.cache_hits, 3u);
  EXPECT_NE(cached.Find(400, RecordPart::kLinks, 2), nullptr);
}

TEST_F(AccessLayers, TheCacheCopiesOnlyWhatHasCome) {
  EmulatedBus never(kNever, 1, TickClock().Now());
  SlowMemory memory(&never);
  const auto cache = *MakeRecordCache(placed_, std::uint64_t{200} * placed_.MostRecordBytes(),
                                      CachePolicy::kDynamic);
  placed_.cache = cache.get();
  CachedRecords cached(placed_, 4, memory, counts_);
  cached.Missed(400);
  cached.Settle();
  EXPECT_EQ(cached.Find(400, RecordPart::kRow, 0), nullptr);
  EXPECT_EQ(cache->stats().filled, 0u);
}

TEST_F(AccessLayers, FetchAheadFetchesLinksOfTheNearestAndThenWhatTheFirstLinksTo) {
  SlowMemory memory(nullptr);
  FetchAhead ahead(placed_, memory, counts_);
  const Beam beam = Found({10, 20, 30, 40, 50, 60, 70, 80, 90, 100});
  ahead.Begin(Prefetch::kHop);
  ahead.Stepped(beam, 100);
  EXPECT_EQ(counts_.fetched_ahead, 0u) << "nobody wants it";
  ahead.Begin(Prefetch::kAhead);
  ahead.Stepped(beam, 3);
  EXPECT_EQ(counts_.fetched_ahead, 3u) << "links of the window";
  ahead.Stepped(beam, 100);
  const std::vector<NodeId> rows = RowsBehind(10);
  ASSERT_GT(rows.size(), 0u);
  EXPECT_EQ(counts_.fetched_ahead, 8 + rows.size()) << "links of eight, rows behind the first";
  ahead.Stepped(beam, 100);
  EXPECT_EQ(counts_.fetched_ahead, 8 + rows.size()) << "no part twice";

  ahead.CountUse(20, RecordPart::kLinks);
  ahead.CountUse(20, RecordPart::kLinks);
  ahead.CountUse(90, RecordPart::kLinks);
  ahead.CountUse(rows[0], RecordPart::kRow);
  ahead.CountUse(rows[0], RecordPart::kLabel);
  EXPECT_EQ(counts_.fetched_ahead_used, 2u);
  EXPECT_EQ(counts_.fetched_ahead_late, 0u) << "as far as can be told";
  ahead.Begin(Prefetch::kAhead);
  ahead.Stepped(beam, 3);
  EXPECT_EQ(counts_.fetched_ahead, 11 + rows.size()) << "a new query";
}

TEST_F(AccessLayers, FetchAheadEndsAtItsBytes) {
  SlowMemory memory(nullptr);
  FetchAhead ahead(placed_, memory, counts_);
  ahead.Begin(Prefetch::kAhead);
  std::uint64_t bytes = 0;
  for (NodeId id = 0; id < placed_.n1(); ++id) {
    const std::uint64_t before = counts_.fetched_ahead;
    ahead.Stepped(Found({id}), 1);
    bytes += (counts_.fetched_ahead - before) * BytesOf(id, RecordPart::kLinks);
    const std::uint64_t links = counts_.fetched_ahead;
    ahead.Stepped(Found({id}), 1);
    bytes += (counts_.fetched_ahead - links) * BytesOf(1999, RecordPart::kRow);
  }
  EXPECT_LE(bytes, 65536u);
  EXPECT_GT(bytes, 65536u - BytesOf(1999, RecordPart::kRow) - BytesOf(0, RecordPart::kLinks));
}

TEST_F(AccessLayers, FetchAheadNeverStandsInTheWayOfDemandAndFollowsNothingThatIsOnItsWay) {
  EmulatedBus never(kNever, 1, TickClock().Now());
  SlowMemory memory(&never);
  FetchAhead ahead(placed_, memory, counts_);
  ahead.Begin(Prefetch::kAhead);
  const Beam beam = Found({10, 20, 30, 40, 50, 60, 70, 80});
  ahead.Stepped(beam, 100);
  EXPECT_GT(counts_.fetched_ahead, 0u);
  EXPECT_LE(counts_.fetched_ahead, kNever.lines);
  EXPECT_FALSE(memory.HasRoom());
  const std::uint64_t fetched_ahead = counts_.fetched_ahead;
  ahead.Stepped(beam, 100);
  EXPECT_EQ(counts_.fetched_ahead, fetched_ahead);
  ahead.CountUse(10, RecordPart::kLinks);
  EXPECT_EQ(counts_.fetched_ahead_late, 1u);
}

/// With any combination of layers, a record equals that of PlainAccess.
TEST_F(AccessLayers, TogetherTheyGiveWhatPlainMemoryDoes) {
  EmulatedBus soon({.latency_ns = 100}, 1, TickClock().Now());
  const auto cache = *MakeRecordCache(placed_, std::uint64_t{100} * placed_.MostRecordBytes(),
                                      CachePolicy::kDynamic);
  ThreadShare shared(placed_);
  PlainAccess plain(index_.placed(), shared);
  for (const bool emulated : {false, true}) {
    for (const bool cached : {false, true}) {
      placed_.emulated = emulated ? &soon : nullptr;
      placed_.cache = cached ? cache.get() : nullptr;
      LayeredAccess access(placed_, shared);
      for (const Prefetch prefetch : {Prefetch::kOff, Prefetch::kHop, Prefetch::kAhead}) {
        access.Begin(prefetch);
        for (std::uint64_t draw = 0; draw < 2000; ++draw) {
          access.Stepped(Found({static_cast<NodeId>(RandomBelow(1, draw, placed_.n1()))}), 1);
          const auto id = static_cast<NodeId>(RandomBelow(2, draw, 2000));
          const RecordPart part = id < placed_.n1() || draw % 3 == 0 ? RecordPart::kLinks
                                  : draw % 3 == 1                    ? RecordPart::kRow
                                                                     : RecordPart::kLabel;
          const std::byte* record = nullptr;
          const std::byte* expected = nullptr;
          access.AskAll({&id, 1}, part, &record);
          plain.AskAll({&id, 1}, part, &expected);
          access.Hint(id);
          access.Await({&id, 1}, part);
          ASSERT_TRUE(Same(PartOf(placed_, id, part, record), PartOf(placed_, id, part, expected)));
        }
        Counters of_query;
        access.AddCounts(of_query);
        EXPECT_EQ(of_query.cache_hits > 0, cached);
        EXPECT_EQ(of_query.fetched_ahead > 0, prefetch == Prefetch::kAhead);
        EXPECT_EQ(of_query.fetched_ahead_used > 0, of_query.fetched_ahead > 0);
      }
    }
  }
}

}  // namespace
}  // namespace hmann
