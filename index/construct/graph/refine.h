#pragma once

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/graph/insertion_graph.h"

namespace hmann {

/// Chooses the links of the first `count` nodes of the bottom layer anew, out of their
/// neighbours and the neighbours of these: who was inserted early meets who came later,
/// at a fraction of what a second insertion would cost. Nodes are taken in batches like
/// those of InsertNodes, so that the graph does not depend on the number of threads.
/// alpha: see NeighbourSelector. Errors: CANCELLED.
absl::Status RefineLinks(InsertionGraph& graph, NodeId count, float alpha, const Job& job);

}  // namespace hmann
