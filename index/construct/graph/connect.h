#pragma once

#include <cstdint>

#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"
#include "index/graph/types.h"

namespace hmann {

struct ConnectReport {
  std::uint64_t unreachable = 0;  ///< nodes that could not be reached before the repair
  std::uint64_t added_links = 0;
};

/// Makes every one of the first n nodes of the bottom layer reachable from `entry` along
/// out-links. A node that is not gets a link from the nearest reachable node (found by a
/// beam search of width `ef`) that has room, or that can spare a link which no shortest
/// path tree from the entry needs. Deterministic.
/// `elsewhere`: the vectors of a graph that has none of its own.
ConnectReport ConnectAll(InsertionGraph& graph, NodeId n, NodeId entry, std::uint32_t ef,
                         const NodeVectors* elsewhere = nullptr);

/// Whether every one of the first n nodes can be reached, found in sweeps over the nodes
/// in their order: for links that lie in a file. Deterministic.
bool AllReachable(InsertionGraph& graph, NodeId n, NodeId entry);

}  // namespace hmann
