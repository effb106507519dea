#pragma once

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/nearest_lists.h"

namespace hmann {

/// Makes the bottom layer of nodes [0, count) of the nearest of each: theirs and their
/// neighbours' nearest are candidates, chosen as NeighbourSelector does; then each target
/// of a link gets the way back, all of its sources at once. The links do not depend on
/// threads. Errors: CANCELLED.
absl::Status LinkNearest(const NearestLists& nearest, NodeId count, float alpha,
                         InsertionGraph& graph, const Job& job);
/// The way back: for each link of nodes [0, count) one from its target. Errors:
/// CANCELLED.
absl::Status LinkBack(NodeId count, float alpha, InsertionGraph& graph, const Job& job);

}  // namespace hmann
