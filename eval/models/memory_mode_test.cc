#include "eval/models/memory_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <list>

#include "eval/models/first_touch.h"
#include "eval/models/testing/memory_mode_acceptance.h"
#include "index/base/random.h"

namespace hmann::eval {
namespace {

TEST(MemoryMode, SevenMicroTracesGiveTheSevenRows) {
  for (const bool associative : {false, true}) {
    const std::vector<RequestRow> rows = RequestTable(associative);
    ASSERT_EQ(rows.size(), 7u);
    const std::uint64_t sums[] = {1, 3, 4, 2, 4, 5, 1};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].measured, rows[i].expected)
          << rows[i].request << (associative ? ", LRU" : "");
      EXPECT_EQ(rows[i].measured.Sum(), sums[i]) << rows[i].request;
      // The table of doc/tiers.md.
      const MemoryAccesses& at = rows[i].measured;
      std::cout << rows[i].request << (associative ? ", LRU" : "") << ": DRAM " << at.dram_reads
                << " read, " << at.dram_writes << " written; slow " << at.node_reads << " read, "
                << at.slow_writes << " written\n";
    }
  }
}

TEST(MemoryMode, TheAcceptanceListHolds) {
  for (const std::uint64_t seed : {1u, 2u}) {
    const std::vector<AcceptanceRow> rows = AcceptanceList(seed);
    EXPECT_EQ(rows.size(), 15u);
    for (const AcceptanceRow& row : rows) {
      EXPECT_NEAR(row.measured, row.expected, row.tolerance) << row.trace << ", seed " << seed;
      std::cout << row.trace << ": " << row.measured << ", expected " << row.expected << '\n';
    }
  }
}

TEST(MemoryMode, ALineThatWasPushedOutIsWrittenBackLikeAnyOther) {
  DirectMappedCache direct(1);
  direct.Read(0);
  direct.Read(1);
  const MemoryAccesses before = direct.accesses();
  EXPECT_FALSE(direct.WriteBack(0));
  EXPECT_EQ(direct.accesses() - before, (MemoryAccesses{1, 2, 1, 0}));
  LruCache lru(1, 2);
  lru.Read(0);
  lru.Read(1);
  const MemoryAccesses before_lru = lru.accesses();
  EXPECT_FALSE(lru.WriteBack(0));
  EXPECT_EQ(lru.accesses() - before_lru, (MemoryAccesses{1, 2, 1, 0}));
}

TEST(MemoryMode, LruIsTheTextbooks) {
  constexpr std::uint64_t kLines = 16, kFootprint = 50;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    LruCache cache(kLines, kFootprint);
    std::list<std::uint64_t> newest_first;
    for (std::uint64_t i = 0; i < 5000; ++i) {
      // Half of the requests go to eight lines, so that there are hits.
      const std::uint64_t line =
          RandomBelow(seed, 2 * i, Random(seed, 2 * i + 1) % 2 == 0 ? 8 : kFootprint);
      const auto found = std::find(newest_first.begin(), newest_first.end(), line);
      const bool expected = found != newest_first.end();
      if (expected) newest_first.erase(found);
      newest_first.push_front(line);
      if (newest_first.size() > kLines) newest_first.pop_back();
      ASSERT_EQ(i % 3 == 0 ? cache.Write(line) : cache.Read(line), expected)
          << "seed " << seed << ", request " << i;
    }
    EXPECT_LT(cache.hits(), 5000u);
  }
}

TEST(MemoryMode, LruHitsWhereTheDirectMappedNeverDoes) {
  DirectMappedCache direct(100);
  LruCache lru(100, 200);
  for (int i = 0; i < 10; ++i) {
    for (const std::uint64_t line : {5u, 105u}) {
      direct.Read(line);
      lru.Read(line);
    }
  }
  EXPECT_EQ(direct.hits(), 0u);
  EXPECT_EQ(lru.hits(), 18u);
}

TEST(FirstTouch, PagesStayWhereTheFirstTouchPutThem) {
  FirstTouch memory(6, 2);
  EXPECT_TRUE(memory.Touch(4));
  EXPECT_TRUE(memory.Touch(0));
  EXPECT_FALSE(memory.Touch(1)) << "full";
  EXPECT_TRUE(memory.Touch(4));
  EXPECT_FALSE(memory.Touch(1));
}

TEST(FirstTouch, WithoutDramEverythingIsSlow) {
  FirstTouch memory(3, 0);
  for (int page = 0; page < 3; ++page) EXPECT_FALSE(memory.Touch(page));
}

}  // namespace
}  // namespace hmann::eval
