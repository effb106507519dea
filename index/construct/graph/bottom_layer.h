#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/phases.h"
#include "index/construct/graph/vectors.h"

namespace hmann {

/// What is inserted into a graph. Referenced as long as the graph lives.
struct InsertionSource {
  const StoredVectors* rows = nullptr;  ///< by node
  const Kernels& kernels;
  NodeId n = 0;     ///< nodes
  NodeId made = 0;  ///< that are linked here: the first; the others, copies of these, are not yet
  std::uint32_t m = 0, ef_construction = 0;
  float alpha = 1;
};

/// Algorithm 1's first phase, and the refinement where alpha is above 1; nodes are in
/// random order. Its upper layers can be dropped. Errors: RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<InsertionGraph> InsertBottom(const InsertionSource& source, Phases& phases,
                                            const Job& job);

/// Of L0's nodes, and of L1's, one in so many, those of the highest degrees, are inserted
/// into a graph of their own, the backbone, though the layer is joined, and take its
/// links over. Leaves link what is near: in clusters that stand apart a search could not
/// leave the one it begins in. 50,000 x 768-d in 20 clusters, the most recall that a walk
/// with ef_l1 4 reaches: 0.991 with both layers inserted; with one in 4, 8, 16, none of
/// L1's nodes 0.984, 0.976, 0.955, 0.925; with one in 4 of L1's and one in 25 of L0's,
/// 1.000. Elsewhere a guess.
constexpr NodeId kBackboneOfL0 = 25, kBackboneOfL1 = 4;
/// Few are no work: all of them.
constexpr NodeId BackboneOf(NodeId nodes, NodeId one_in) {
  return std::max(nodes / one_in, std::min(nodes, NodeId{2048}));
}

/// Those of the highest degrees among the nodes of a layer, inserted into a graph of
/// their own, whose node i is nodes[i].
struct Backbone {
  std::vector<NodeId> nodes;
  StoredVectors rows;
  InsertionGraph graph;
};
/// Of the nodes made so far; `gather`: the vectors of some, in their order. `source.rows`
/// is not read; `source.kernels` must outlive it. Errors: RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<Backbone> MakeBackbone(
    const InsertionSource& source, InsertionGraph& graph,
    const std::function<absl::StatusOr<StoredVectors>(const std::vector<NodeId>&)>& gather,
    const Job& job);

}  // namespace hmann
