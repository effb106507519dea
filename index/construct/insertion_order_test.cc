#include "index/construct/graph/insertion_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hmann {
namespace {

using testing::ElementsAre;

/// 100 rows: 7, 40 and 93 are equal, and so are 8 and 9.
DuplicateGroups Duplicates() {
  DuplicateGroups found;
  for (std::uint32_t row = 0; row < 100; ++row) {
    if (row != 9 && row != 40 && row != 93) found.unique.push_back(row);
  }
  found.groups = {{7, 40, 93}, {8, 9}};
  found.copies = 3;
  return found;
}

TEST(InsertionOrder, IsAPermutationWithCopiesBehind) {
  const InsertionOrder order = RandomOrder(Duplicates(), 100, 1);
  EXPECT_EQ(order.inserted, 97u);
  EXPECT_THAT(std::vector<std::uint32_t>(order.row_of.begin() + 97, order.row_of.end()),
              ElementsAre(40, 93, 9));
  std::vector<std::uint32_t> sorted = order.row_of;
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t row = 0; row < 100; ++row) EXPECT_EQ(sorted[row], row);
  EXPECT_FALSE(std::is_sorted(order.row_of.begin(), order.row_of.begin() + 97));
  EXPECT_EQ(RandomOrder(Duplicates(), 100, 1).row_of, order.row_of);
  EXPECT_NE(RandomOrder(Duplicates(), 100, 2).row_of, order.row_of);
}

TEST(InsertionOrder, GroupsAreNamedByNode) {
  const InsertionOrder order = RandomOrder(Duplicates(), 100, 1);
  ASSERT_EQ(order.equal.size(), 2u);
  EXPECT_THAT(order.equal[0], ElementsAre(testing::Lt(97u), 97, 98));
  EXPECT_THAT(order.equal[1], ElementsAre(testing::Lt(97u), 99));
  EXPECT_EQ(order.row_of[order.equal[0][0]], 7u);
  EXPECT_EQ(order.row_of[order.equal[1][0]], 8u);
}

TEST(InsertionOrder, AFinishedGraphKeepsItsRows) {
  const InsertionOrder order = OrderOfRows(Duplicates(), 100);
  EXPECT_EQ(order.inserted, 100u) << "copies are in the graph already";
  for (std::uint32_t row = 0; row < 100; ++row) EXPECT_EQ(order.row_of[row], row);
  EXPECT_THAT(order.equal, ElementsAre(ElementsAre(7, 40, 93), ElementsAre(8, 9)));
}

}  // namespace
}  // namespace hmann
