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
/// out-links. An unreachable node gets a link from the nearest reachable node (found by a
/// beam search of width `ef`) that has room for it. A full list qualifies if it can spare
/// a link that no shortest path tree from the entry needs. Deterministic. `elsewhere`:
/// the vectors of a graph that has none of its own.
ConnectReport ConnectAll(InsertionGraph& graph, NodeId n, NodeId entry, std::uint32_t ef,
                         const NodeVectors* elsewhere = nullptr);

/// Returns whether every one of the first n nodes can be reached. It sweeps over the
/// nodes in their order, which suits links that lie in a file. Deterministic.
bool AllReachable(InsertionGraph& graph, NodeId n, NodeId entry);

}  // namespace hmann
