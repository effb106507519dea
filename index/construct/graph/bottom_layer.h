#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/task_context.h"
#include "index/construct/graph/insert.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/phases.h"
#include "index/construct/graph/vectors.h"

namespace hmann {

/// The vectors that are inserted into a graph, and how. Must outlive the graph.
struct InsertionSource {
  const StoredVectors* rows = nullptr;  ///< by node
  const Kernels& kernels;
  NodeId n = 0;     ///< nodes
  NodeId made = 0;  ///< the first nodes, which are linked here; the others are their copies
  std::uint32_t m = 0, ef_construction = 0;
  float alpha = 1;
  std::uint64_t room = ~std::uint64_t{0};  ///< see ComputeDegrees
};

/// The layers of Algorithm 1's first phase, without links. Errors: those of `allocate`.
absl::StatusOr<InsertionGraph> OpenLayers(
    const InsertionSource& source, const InsertionGraph::Allocate& allocate = Buffer::Allocate);
/// Algorithm 1's first phase, and the refinement where alpha is above 1. Nodes are in
/// random order. The caller may drop the graph's upper layers then. `from`, `after`,
/// errors: as in InsertNodes.
absl::Status InsertBottom(const InsertionSource& source, InsertionGraph& graph,
                          const LinkedSoFar& from, const AfterBatch& after, Phases& phases,
                          const TaskContext& job);

/// Even where a layer is joined, its highest-degree nodes (one in kBackboneOfL0 or
/// kBackboneOfL1) are inserted into a graph of their own. This is the backbone, and the
/// layer takes its links over. Leaves link only near nodes: between separate clusters a
/// search could not leave the one it begins in.
///
/// The highest recall of a traversal with ef_l1 4 was measured on 50,000 x 768-d in 20
/// clusters. It is 0.991 with both layers inserted. With one in 4, 8, 16, none of L1's
/// nodes it is 0.984, 0.976, 0.955, 0.925. With one in 4 of L1's and one in 25 of L0's it
/// is 1.000. For other data these are a guess.
constexpr NodeId kBackboneOfL0 = 25, kBackboneOfL1 = 4;
/// A small layer is inserted whole, because that costs little.
constexpr NodeId BackboneOf(NodeId nodes, NodeId one_in) {
  return std::max(nodes / one_in, std::min(nodes, NodeId{2048}));
}

/// The nodes of a layer that have the highest degrees, inserted into a graph of their
/// own. Its node i is nodes[i].
struct Backbone {
  std::vector<NodeId> nodes;
  StoredVectors rows;
  InsertionGraph graph;
};
/// Makes the backbone of the nodes made so far. `gather` returns the vectors of some
/// nodes, in their order. `source.rows` is not read; `source.kernels` must outlive the
/// result. Errors: RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<Backbone> MakeBackbone(
    const InsertionSource& source, const InsertionGraph& graph,
    const std::function<absl::StatusOr<StoredVectors>(const std::vector<NodeId>&)>& gather,
    const TaskContext& job);

}  // namespace hmann
