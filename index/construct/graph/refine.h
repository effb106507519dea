#pragma once

#include "absl/status/status.h"
#include "index/base/task_context.h"
#include "index/construct/graph/insert.h"
#include "index/construct/graph/insertion_graph.h"

namespace hmann {

/// Chooses the links of the first `count` nodes of the bottom layer anew, out of their
/// neighbors and the neighbors of these. Nodes inserted early meet later ones that way,
/// at a fraction of the cost of a second insertion. Nodes go in batches like those of
/// InsertNodes, so the graph does not depend on the number of threads. alpha: see
/// NeighborSelector. `from`, `after`, errors: as in InsertNodes.
absl::Status RefineLinks(InsertionGraph& graph, NodeId count, float alpha, const TaskContext& job,
                         const LinkedSoFar& from = {}, const AfterBatch& after = nullptr);

}  // namespace hmann
