#include "index/graph/layers.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace hmann {
namespace {

TEST(Layers, AreNestedPrefixesThatShrinkByM) {
  for (const NodeId n : {1u, 2u, 17u, 1000u, 1000000u}) {
    for (const std::uint32_t m : {2u, 3u, 16u, 48u}) {
      for (const NodeId n1 : {NodeId{0}, NodeId{1}, n / 10, n / 2, n - 1}) {
        if (n1 >= n) continue;
        SCOPED_TRACE(absl::StrCat("n ", n, ", n1 ", n1, ", m ", m));
        const Layers layers = Layers::Make(n, n1, m);
        EXPECT_EQ(layers.n(), n);
        EXPECT_EQ(layers.n1(), n1);
        EXPECT_EQ(layers.top() > 0, n1 > 0);
        for (std::uint32_t layer = 1; layer <= layers.top(); ++layer) {
          EXPECT_LT(layers.nodes[layer], layers.nodes[layer - 1]) << "layer " << layer;
          EXPECT_GE(layers.nodes[layer], 1u);
          if (layer > 1) {
            EXPECT_EQ(layers.nodes[layer], layers.nodes[layer - 1] / m) << "layer " << layer;
          }
        }
        if (n1 > 0) {
          EXPECT_LT(layers.nodes[layers.top()], m) << "a further layer would have had a node";
        }
      }
    }
  }
}

TEST(Layers, NodesFallByTheFactorM) {
  EXPECT_EQ(Layers::Make(5000, 800, 6).nodes, (std::vector<NodeId>{5000, 800, 133, 22, 3}));
}

TEST(Layers, UpperLinksAreTheFormula) {
  EXPECT_EQ(Layers::Make(1000, 100, 5).UpperLinkBytes(), (100 * 10 + 20 * 5 + 4 * 5) * 4u);
  EXPECT_EQ(Layers::Make(1000, 0, 5).UpperLinkBytes(), 0u);
}

TEST(Layers, DegreesAreThePapers) {
  const Layers layers = Layers::Make(100000, 16000, 16);
  EXPECT_EQ(layers.MaxDegree(0), 32u);
  EXPECT_EQ(layers.MaxDegree(1), 32u);
  EXPECT_EQ(layers.MaxDegree(2), 16u);
  EXPECT_EQ(layers.MaxDegree(3), 16u);
}

}  // namespace
}  // namespace hmann
