#include "index/graph/layer_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hmann {
namespace {

constexpr NodeId kSide = 20;
constexpr NodeId kNodes = kSide * kSide;

/// Points (x, y) of a 20 x 20 grid, node x + 20 y, each linked to its four neighbors.
/// Every distance and every path can be computed.
class Grid : public testing::Test {
 protected:
  Grid() {
    for (NodeId node = 0; node < kNodes; ++node) {
      const NodeId x = node % kSide, y = node / kSide;
      rows_.push_back(static_cast<std::byte>(x));
      rows_.push_back(static_cast<std::byte>(y));
      std::vector<NodeId> links;
      if (x > 0) links.push_back(node - 1);
      if (x + 1 < kSide) links.push_back(node + 1);
      if (y > 0) links.push_back(node - kSide);
      if (y + 1 < kSide) links.push_back(node + kSide);
      links.resize(4, kNoNode);
      links_.insert(links_.end(), links.begin(), links.end());
    }
    layer_ = {links_.data(), kNodes, 4, rows_.data(), 2, &kernels_};
  }

  struct Count {
    std::uint64_t distances = 0, expanded = 0;
    void Distances(std::size_t n) { distances += n; }
    void Expanded() { ++expanded; }
    void Scored(const RowBatch&) {}
    void Stepped(const Beam&) {}
  };

  /// The nearest nodes to (x, y), ties by id.
  static std::vector<NodeId> Nearest(int x, int y, std::size_t count) {
    std::vector<std::pair<int, NodeId>> all;
    for (NodeId node = 0; node < kNodes; ++node) {
      const int dx = static_cast<int>(node % kSide) - x, dy = static_cast<int>(node / kSide) - y;
      all.emplace_back(dx * dx + dy * dy, node);
    }
    std::sort(all.begin(), all.end());
    std::vector<NodeId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(all[i].second);
    return ids;
  }

  std::vector<NodeId> BeamIds() const {
    std::vector<NodeId> ids;
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i) ids.push_back(scratch_.beam.id(i));
    return ids;
  }

  Kernels kernels_ = *ChooseKernels(DType::kU8, Metric::kL2, 2);
  std::vector<std::byte> rows_;
  std::vector<NodeId> links_;
  LayerView layer_;
  LayerScratch scratch_;
  Count count_;
};

TEST_F(Grid, GreedyWalksStraightToTheQuery) {
  const std::byte query[] = {std::byte{13}, std::byte{7}};
  EXPECT_EQ(GreedySearch(layer_, query, 0, scratch_, count_), 13 + 7 * kSide);
  EXPECT_EQ(count_.expanded, 13 + 7 + 1u)
      << "one node a step and the last one, whose neighbors are all farther";
}

TEST_F(Grid, GreedyCountsEveryNeighborItMeasures) {
  const std::byte query[] = {std::byte{0}, std::byte{0}};
  EXPECT_EQ(GreedySearch(layer_, query, 1, scratch_, count_), 0u);
  EXPECT_EQ(count_.distances, 1 + 3 + 2u)
      << "the entry, three neighbors of node 1, two of the corner";
  EXPECT_EQ(count_.expanded, 2u);
}

TEST_F(Grid, GreedyTakesTheSmallerIdOfTwoEquallyNear) {
  // From (1, 1), the query (0, 0) is equally far from (0, 1) and (1, 0); (1, 0) is node
  // 1.
  links_[0 * 4] = kNoNode;  // the corner has no links
  const std::byte query[] = {std::byte{0}, std::byte{0}};
  for (NodeId node : {1u, kSide}) links_[node * 4] = kNoNode;
  EXPECT_EQ(GreedySearch(layer_, query, 1 + kSide, scratch_, count_), 1u);
}

TEST_F(Grid, SearchFindsTheNearestInOrder) {
  for (const auto& [x, y, ef] :
       {std::tuple(3, 3, 1), {10, 11, 5}, {0, 19, 9}, {19, 19, 30}, {7, 2, 400}, {200, 200, 12}}) {
    const std::byte query[] = {static_cast<std::byte>(x), static_cast<std::byte>(y)};
    const auto width = static_cast<std::uint32_t>(ef);
    OpenBeam(layer_, query, 5, width, scratch_, count_);
    EXPECT_TRUE(SearchLayer(layer_, query, width, scratch_, count_));
    EXPECT_EQ(BeamIds(), Nearest(x, y, width)) << "query (" << x << ", " << y << ") with ef " << ef;
  }
}

TEST_F(Grid, EveryNodeIsMeasuredOnceAndExpandedOnce) {
  const std::byte query[] = {std::byte{4}, std::byte{4}};
  OpenBeam(layer_, query, 399, kNodes, scratch_, count_);
  EXPECT_TRUE(SearchLayer(layer_, query, kNodes, scratch_, count_));
  EXPECT_EQ(count_.distances, kNodes);
  EXPECT_EQ(count_.expanded, kNodes);
}

TEST_F(Grid, AWiderBeamChangesNothingOfTheSearch) {
  const std::byte query[] = {std::byte{15}, std::byte{2}};
  Count narrow, wide;
  OpenBeam(layer_, query, 0, 6, scratch_, narrow);
  SearchLayer(layer_, query, 6, scratch_, narrow);
  const std::vector<NodeId> ids = BeamIds();
  OpenBeam(layer_, query, 0, 40, scratch_, wide);
  SearchLayer(layer_, query, 6, scratch_, wide);
  EXPECT_EQ(wide.distances, narrow.distances);
  EXPECT_EQ(wide.expanded, narrow.expanded);
  const std::vector<NodeId> more = BeamIds();
  EXPECT_GT(more.size(), ids.size()) << "what was met on the way is kept";
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), more.begin()));
}

TEST_F(Grid, ASearchInPartsEndsAsOneInOne) {
  const std::byte query[] = {std::byte{15}, std::byte{2}};
  Count whole, parts;
  OpenBeam(layer_, query, 0, 10, scratch_, whole);
  EXPECT_TRUE(SearchLayer(layer_, query, 10, scratch_, whole));
  const std::vector<NodeId> ids = BeamIds();
  OpenBeam(layer_, query, 0, 10, scratch_, parts);
  int calls = 1;
  while (!SearchLayer(layer_, query, 10, scratch_, parts, 3)) ++calls;
  EXPECT_EQ(BeamIds(), ids);
  EXPECT_EQ(parts.distances, whole.distances);
  EXPECT_EQ(parts.expanded, whole.expanded);
  EXPECT_GE(calls, static_cast<int>(whole.expanded / 3));
}

TEST_F(Grid, ALinkOutOfRangeEndsItsList) {
  links_[0] = kNodes;  // right below kNoNode in a corrupt file
  links_[1 * 4] = 0x7fffffff;
  const std::byte query[] = {std::byte{0}, std::byte{0}};
  EXPECT_EQ(GreedySearch(layer_, query, 0, scratch_, count_), 0u);
  OpenBeam(layer_, query, 0, 4, scratch_, count_);
  SearchLayer(layer_, query, 4, scratch_, count_);
  EXPECT_THAT(BeamIds(), testing::ElementsAre(0));
}

}  // namespace
}  // namespace hmann
