#include "index/construct/graph/duplicates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

TEST(GroupEqual, GroupsWhatIsEqualWhateverTheHashes) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    // Few values give many copies. Some hashes belong to several values.
    constexpr std::uint32_t kRows = 9000;
    std::vector<std::uint64_t> values(kRows);
    std::vector<HashedRow> hashed;
    std::map<std::uint64_t, std::vector<std::uint32_t>> groups;
    for (std::uint32_t i = 0; i < kRows; ++i) {
      const std::uint64_t value = RandomBelow(seed, i, seed * 2000);
      values[i] = value;
      hashed.push_back({value / 3, i});
      groups[value].push_back(i);
    }
    std::vector<std::uint32_t> unique;
    std::vector<std::vector<std::uint32_t>> expected;
    for (const auto& [value, members] : groups) {
      unique.push_back(members[0]);
      if (members.size() > 1) expected.push_back(members);
    }
    std::sort(unique.begin(), unique.end());
    std::sort(expected.begin(), expected.end());
    const DuplicateGroups found = GroupEqual(
        hashed, [&](std::uint32_t a, std::uint32_t b) { return values[a] == values[b]; });
    EXPECT_EQ(found.unique, unique);
    EXPECT_EQ(found.groups, expected);
    EXPECT_EQ(found.copies, kRows - unique.size());
  }
}

TEST(LinkDuplicates, HangsCopiesInATreeBelowTheFirst) {
  constexpr NodeId kNodes = 40;
  const std::vector<std::byte> rows(kNodes);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, 1);
  InsertionGraph graph = *InsertionGraph::Make({kNodes}, {4}, rows.data(), 1, kernels);
  std::vector<std::vector<NodeId>> groups = {{}, {35, 36}, {39}, {}};
  for (NodeId node = 3; node < 33; ++node) groups[0].push_back(node);
  const auto links = [&](NodeId node) {
    const NodeId* list = graph.Links(0, node);
    return std::vector<NodeId>(list, list + CountLinks(list, 4));
  };
  for (std::uint32_t i = 0; i < 4; ++i) graph.Links(0, 3)[i] = i < 3 ? i : 39;  // a full list
  LinkDuplicates(groups, graph);
  EXPECT_THAT(links(3), testing::ElementsAre(0, 1, 4, 5))
      << "the last links make room for the children";
  EXPECT_THAT(links(4), testing::ElementsAre(3, 6, 7));
  EXPECT_THAT(links(16), testing::ElementsAre(9, 30, 31));
  EXPECT_THAT(links(17), testing::ElementsAre(9, 32)) << "one child is left";
  EXPECT_THAT(links(32), testing::ElementsAre(17));
  EXPECT_THAT(links(35), testing::ElementsAre(36));
  EXPECT_THAT(links(36), testing::ElementsAre(35));
  EXPECT_TRUE(links(38).empty());
  EXPECT_TRUE(links(39).empty()) << "alone in its group";
}

}  // namespace
}  // namespace hmann
