#include "index/construct/graph/degree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

using ::testing::ElementsAre;

constexpr NodeId kNone = kNoNode;

const Kernels kNoKernels;

TEST(Degrees, CountBothDirectionsOnce) {
  // 0 <-> 1, 0 -> 2, 3 -> 0, 3 -> 2; 4 alone.
  const std::vector<NodeId> links = {1,     2, kNone, 0,     kNone, kNone, kNone, kNone,
                                     kNone, 0, 2,     kNone, kNone, kNone, kNone};
  ThreadPool pool(1);
  EXPECT_THAT(ComputeDegrees(PackedGraph(links, 3, kNoKernels), pool), ElementsAre(3, 1, 2, 2, 0));
}

TEST(Degrees, EqualSetsOfNeighborsForAnyThreads) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    constexpr NodeId kNodes = 10000;
    constexpr std::uint32_t kMost = 6;
    std::vector<NodeId> links(std::size_t{kNodes} * kMost, kNone);
    std::vector<std::set<NodeId>> in(kNodes), out(kNodes);
    for (NodeId v = 0; v < kNodes; ++v) {
      for (std::uint64_t i = 0, place = 0, count = RandomBelow(seed, v, kMost + 1); i < count;
           ++i) {
        const auto u = static_cast<NodeId>(
            RandomBelow(seed + 1, std::uint64_t{v} * kMost + i, i % 2 == 0 ? kNodes : 20));
        if (u == v || !out[v].insert(u).second) continue;
        in[u].insert(v);
        links[std::size_t{v} * kMost + place++] = u;
      }
    }
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      // Room for all lists, for none, for some.
      for (const std::uint64_t room :
           {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{130'000}}) {
        const std::vector<std::uint32_t> degrees =
            ComputeDegrees(PackedGraph(links, kMost, kNoKernels), pool, room);
        for (NodeId v = 0; v < kNodes; ++v) {
          std::set<NodeId> either = in[v];
          either.insert(out[v].begin(), out[v].end());
          ASSERT_EQ(degrees[v], either.size()) << "node " << v;
        }
      }
    }
  }
}

TEST(RankNodes, HighestFirstTiesByRow) {
  const std::vector<std::uint32_t> degrees = {3, 5, 3, 1}, row_of = {3, 0, 1, 2};
  EXPECT_THAT(RankNodes(degrees, row_of), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(RankNodes({}, {}), ElementsAre());
}

TEST(RankNodes, IsTheOrderOfAComparison) {
  constexpr std::uint32_t kNodes = 5000;
  const std::vector<std::uint32_t> row_of = RandomPermutation(kNodes, 3);
  std::vector<std::uint32_t> degrees(kNodes);
  std::vector<NodeId> expected(kNodes);
  for (NodeId v = 0; v < kNodes; ++v) {
    degrees[v] = static_cast<std::uint32_t>(RandomBelow(4, v, v % 7 == 0 ? 1000 : 12));
    expected[v] = v;
  }
  std::sort(expected.begin(), expected.end(), [&](NodeId a, NodeId b) {
    return degrees[a] != degrees[b] ? degrees[a] > degrees[b] : row_of[a] < row_of[b];
  });
  std::vector<NodeId> ranked = RankNodes(degrees, row_of);
  EXPECT_EQ(ranked, expected);
  SortByRow(std::span(ranked).subspan(100), row_of);
  std::sort(expected.begin() + 100, expected.end(),
            [&](NodeId a, NodeId b) { return row_of[a] < row_of[b]; });
  EXPECT_EQ(ranked, expected);
}

}  // namespace
}  // namespace hmann
