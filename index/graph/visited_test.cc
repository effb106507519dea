#include "index/graph/visited.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"

namespace hmann {
namespace {

/// Makes `count` random insertions of ids below `bound`, each compared with a set.
void InsertMany(VisitedSet& visited, std::uint64_t seed, std::uint64_t count, std::uint64_t bound) {
  std::set<NodeId> slow;
  ASSERT_EQ(visited.size(), 0u);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto node = static_cast<NodeId>(RandomBelow(seed, i, bound));
    ASSERT_EQ(visited.Contains(node), slow.contains(node)) << "node " << node;
    ASSERT_EQ(visited.Insert(node), slow.insert(node).second) << "node " << node;
    ASSERT_EQ(visited.size(), slow.size());
  }
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto node = static_cast<NodeId>(RandomBelow(seed + 1, i, bound));
    ASSERT_EQ(visited.Contains(node), slow.contains(node)) << "node " << node;
  }
}

TEST(VisitedSet, DoesWhatASetDoesWhileItGrowsAndShrinks) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    VisitedSet visited;
    // Large, then small until the table shrinks to its minimum, then large again.
    for (const std::uint64_t count :
         {20000, 10, 10, 10, 10, 10, 10, 10, 10, 3000, 0, 10, 127, 128, 129}) {
      visited.Clear();
      ASSERT_NO_FATAL_FAILURE(InsertMany(visited, seed * 100 + count, count,
                                         count % 2 == 0 ? kMaxNodes + 1 : 2 * count));
    }
  }
}

TEST(VisitedSet, ALinkListIsInsertedAsLinkByLink) {
  constexpr NodeId kNodes = 5000;
  VisitedSet listed, single;
  std::uint64_t counter = 0;
  for (int round = 0; round < 3; ++round) {
    listed.Clear();
    single.Clear();
    for (int list = 0; list < 400; ++list) {
      NodeId links[24], fresh[24];
      // Repeats within a list, and links that end it, as in a damaged file.
      for (NodeId& link : links) link = static_cast<NodeId>(RandomBelow(5, counter++, kNodes + 60));
      const std::uint32_t most = static_cast<std::uint32_t>(RandomBelow(5, counter++, 25));
      std::vector<NodeId> expected;
      for (std::uint32_t i = 0; i < most && links[i] < kNodes; ++i) {
        if (single.Insert(links[i])) expected.push_back(links[i]);
      }
      const std::uint32_t count = listed.InsertNew(links, most, kNodes, fresh);
      ASSERT_EQ(std::vector<NodeId>(fresh, fresh + count), expected);
      ASSERT_EQ(listed.size(), single.size());
    }
  }
}

TEST(VisitedSet, IdsInStepDoNotPileUp) {
  // Multiples of a power of two share their low bits. A table that used only those would
  // probe 2^15 slots for each.
  VisitedSet visited;
  for (NodeId i = 0; i < 32768; ++i) ASSERT_TRUE(visited.Insert(i << 16));
  for (NodeId i = 0; i < 32768; ++i) ASSERT_FALSE(visited.Insert(i << 16));
  EXPECT_EQ(visited.size(), 32768u);
}

}  // namespace
}  // namespace hmann
