#include "index/construct/graph/connect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// A bottom layer of points on a line, row i at place i, whose links a test sets.
class Line : public testing::Test {
 protected:
  void Make(NodeId n, std::uint32_t max_degree) {
    rows_.resize(n * std::size_t{2});
    for (NodeId i = 0; i < n; ++i) {
      rows_[std::size_t{i} * 2] = static_cast<std::byte>(i % 256);
      rows_[i * 2 + 1] = static_cast<std::byte>(i / 256);
    }
    kernels_ = *ChooseKernels(DType::kU8, Metric::kL2, 2);
    graph_ = std::make_unique<InsertionGraph>(
        *InsertionGraph::Make({n}, {max_degree}, rows_.data(), 2, kernels_));
  }
  void Link(NodeId from, const std::vector<NodeId>& to) {
    std::copy(to.begin(), to.end(), graph_->Links(0, from));
  }

  std::vector<std::vector<NodeId>> Links() {
    std::vector<std::vector<NodeId>> links(graph_->nodes(0));
    for (NodeId v = 0; v < links.size(); ++v) {
      links[v].assign(graph_->Links(0, v),
                      graph_->Links(0, v) + CountLinks(graph_->Links(0, v), graph_->max_degree(0)));
      EXPECT_EQ(std::set<NodeId>(links[v].begin(), links[v].end()).size(), links[v].size())
          << "a link twice, node " << v;
      EXPECT_EQ(std::count(links[v].begin(), links[v].end(), v), 0) << "a self-link";
    }
    return links;
  }

  std::vector<std::byte> rows_;
  Kernels kernels_;
  std::unique_ptr<InsertionGraph> graph_;
};

TEST_F(Line, AConnectedGraphIsLeftAlone) {
  Make(4, 3);
  for (NodeId v = 0; v < 4; ++v) Link(v, {(v + 1) % 4});
  const auto before = Links();
  const ConnectReport report = ConnectAll(*graph_, 4, 0, 10);
  EXPECT_EQ(report.unreachable, 0u);
  EXPECT_EQ(report.added_links, 0u);
  EXPECT_EQ(Links(), before);
}

TEST_F(Line, OneLinkBringsAWholeComponent) {
  Make(8, 3);
  for (NodeId v = 0; v < 8; ++v) Link(v, {v < 4 ? (v + 1) % 4 : 4 + (v + 1) % 4});
  const ConnectReport report = ConnectAll(*graph_, 8, 0, 10);
  EXPECT_EQ(report.unreachable, 4u);
  EXPECT_EQ(report.added_links, 1u);
  EXPECT_EQ(CountReachable(Links()), 8u);
  EXPECT_EQ(Links()[3], (std::vector<NodeId>{0, 4})) << "the nearest reachable node got the link";
}

TEST_F(Line, AFullListGivesUpALinkThatNobodyNeeds) {
  // 0..3 all linked with each other and full; 4 alone.
  Make(5, 3);
  for (NodeId v = 0; v < 4; ++v) {
    std::vector<NodeId> others;
    for (NodeId u = 0; u < 4; ++u) {
      if (u != v) others.push_back(u);
    }
    Link(v, others);
  }
  EXPECT_EQ(ConnectAll(*graph_, 5, 0, 10).added_links, 1u);
  EXPECT_EQ(CountReachable(Links()), 5u);
}

TEST_F(Line, RandomGraphsBecomeConnectedFromAnyEntry) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const std::uint32_t ef : {1u, 20u}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", ef ", ef));
      const NodeId n = 200;
      Make(n, 4);
      for (NodeId v = 0; v < n; ++v) {
        std::set<NodeId> links;
        for (std::uint64_t i = RandomBelow(seed, v, 5); i > 0; --i) {
          const auto u = static_cast<NodeId>(RandomBelow(seed + 1, std::uint64_t{v} * 5 + i, n));
          if (u != v) links.insert(u);
        }
        Link(v, {links.begin(), links.end()});
      }
      const auto entry = static_cast<NodeId>(RandomBelow(seed, 9999, n));
      InsertionGraph packed = PackedGraph({graph_->Links(0, 0), n * std::size_t{4}}, 4, kernels_);
      const NodeVectors vectors{.stride = 2, .count = n, .all = rows_.data()};
      const ConnectReport report = ConnectAll(*graph_, n, entry, ef);
      ConnectAll(packed, n, entry, ef, &vectors);
      const auto plain = Links();
      std::vector<NodeId> scratch;
      for (NodeId v = 0; v < n; ++v) {
        const std::span<const NodeId> list = packed.List(v, scratch);
        ASSERT_TRUE(std::ranges::equal(list, plain[v])) << "node " << v;
      }
      EXPECT_GT(report.unreachable, 0u);
      EXPECT_LE(report.added_links, report.unreachable);
      auto links = plain;
      std::swap(links[0], links[entry]);  // CountReachable starts at 0
      for (auto& list : links) {
        for (NodeId& link : list) link = link == 0 ? entry : link == entry ? 0 : link;
      }
      EXPECT_EQ(CountReachable(links), n);
      EXPECT_EQ(ConnectAll(*graph_, n, entry, ef).unreachable, 0u);
    }
  }
}

TEST_F(Line, WithoutAnyLinkAllHangTogetherAtLast) {
  Make(100, 4);
  const ConnectReport report = ConnectAll(*graph_, 100, 0, 10);
  EXPECT_EQ(report.unreachable, 99u);
  EXPECT_EQ(report.added_links, 99u);
  EXPECT_EQ(CountReachable(Links()), 100u);
}

}  // namespace
}  // namespace hmann
