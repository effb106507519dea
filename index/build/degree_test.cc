#include "index/build/degree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"

namespace hmann {
namespace {

using ::testing::ElementsAre;

constexpr NodeId kNone = kNoNode;

TEST(Degrees, CountBothDirectionsOnce) {
  // 0 <-> 1, 0 -> 2, 3 -> 0, 3 -> 2; 4 alone.
  const std::vector<NodeId> links = {1, 2, kNone, 0, kNone, kNone, kNone, kNone, kNone, 0, 2, kNone, kNone, kNone, kNone};
  ThreadPool pool(1);
  const Degrees degrees = ComputeDegrees(links.data(), 5, 3, pool);
  EXPECT_THAT(degrees.out, ElementsAre(2, 1, 0, 2, 0));
  EXPECT_THAT(degrees.in, ElementsAre(2, 1, 2, 0, 0));
  EXPECT_THAT(degrees.either, ElementsAre(3, 1, 2, 2, 0));
}

TEST(Degrees, EqualSetsOfNeighboursForAnyThreads) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    constexpr NodeId kNodes = 10000;
    constexpr std::uint32_t kMost = 6;
    std::vector<NodeId> links(kNodes * kMost, kNone);
    std::vector<std::set<NodeId>> in(kNodes), out(kNodes);
    for (NodeId v = 0; v < kNodes; ++v) {
      for (std::uint64_t i = 0, place = 0, count = RandomBelow(seed, v, kMost + 1); i < count; ++i) {
        const auto u = static_cast<NodeId>(RandomBelow(seed + 1, v * kMost + i, i % 2 == 0 ? kNodes : 20));
        if (u == v || !out[v].insert(u).second) continue;
        in[u].insert(v);
        links[v * kMost + place++] = u;
      }
    }
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      const Degrees degrees = ComputeDegrees(links.data(), kNodes, kMost, pool);
      for (NodeId v = 0; v < kNodes; ++v) {
        std::set<NodeId> either = in[v];
        either.insert(out[v].begin(), out[v].end());
        ASSERT_EQ(degrees.out[v], out[v].size()) << "node " << v;
        ASSERT_EQ(degrees.in[v], in[v].size()) << "node " << v;
        ASSERT_EQ(degrees.either[v], either.size()) << "node " << v;
      }
    }
  }
}

TEST(RankNodes, HighestFirstTiesByRow) {
  Degrees degrees;
  degrees.either = {3, 5, 3, 1};
  degrees.in = {1, 0, 2, 2};
  degrees.out = {9, 9, 9, 9};
  const std::vector<std::uint32_t> row_of = {3, 0, 1, 2};
  EXPECT_THAT(RankNodes(degrees, PromotionOrder::kDegree, row_of, 1), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(RankNodes(degrees, PromotionOrder::kInDegree, row_of, 1), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(RankNodes(degrees, PromotionOrder::kOutDegree, row_of, 1), ElementsAre(1, 2, 3, 0)) << "all tie: by row";
}

TEST(RankNodes, RandomIsAFunctionOfTheRow) {
  // Two orders of insertion of the same rows.
  const std::vector<std::uint32_t> row_of = {0, 1, 2, 3, 4, 5, 6, 7}, other = {7, 3, 1, 0, 2, 6, 5, 4};
  const auto rows = [](const std::vector<NodeId>& ranked, const std::vector<std::uint32_t>& of) {
    std::vector<std::uint32_t> rows;
    for (NodeId node : ranked) rows.push_back(of[node]);
    return rows;
  };
  const auto first = rows(RankNodes({}, PromotionOrder::kRandom, row_of, 1), row_of);
  EXPECT_EQ(rows(RankNodes({}, PromotionOrder::kRandom, other, 1), other), first);
  EXPECT_NE(rows(RankNodes({}, PromotionOrder::kRandom, row_of, 2), row_of), first);
  EXPECT_THAT(first, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace hmann
