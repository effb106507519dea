#pragma once

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/nearest_lists.h"

namespace hmann {

/// Links of nodes [0, count) of the bottom layer, whose lists must be empty: the nearest
/// of a node and of its neighbours are candidates, chosen as NeighbourSelector does. The
/// links do not depend on threads. Errors: CANCELLED.
absl::Status LinkNearest(const NearestLists& nearest, NodeId count, float alpha,
                         InsertionGraph& graph, const Job& job);
/// The way back: for each link of nodes [0, count) one from its target, all of a target's
/// sources at once. Errors: CANCELLED.
absl::Status LinkBack(NodeId count, float alpha, InsertionGraph& graph, const Job& job);

}  // namespace hmann
