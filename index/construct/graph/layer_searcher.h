#pragma once

#include <vector>

#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"
#include "index/graph/layer_search.h"

namespace hmann {

/// Searches a bottom layer whose lists may be packed and whose vectors may lie elsewhere.
/// It then copies those that a step reads, which suits few searches. Use one per thread.
class LayerSearcher {
 public:
  /// `vectors`: those of the graph, whose own rows are not read. Both must outlive this.
  LayerSearcher(const InsertionGraph& graph, const NodeVectors& vectors);

  /// The vector of a node; valid until the next call.
  const std::byte* Query(NodeId node) { return Take(node, graph_.max_degree(0)); }
  /// Like OpenBeam and SearchLayer. Returns the final beam.
  const Beam& Run(const std::byte* query, NodeId entry, std::uint32_t width);
  LayerScratch& scratch() { return scratch_; }

 private:
  const std::byte* Take(NodeId node, std::size_t place);

  const InsertionGraph& graph_;
  const NodeVectors& vectors_;
  std::vector<std::byte> places_;  ///< vectors of a step, and the query
  std::vector<NodeId> list_;
  LayerScratch scratch_;
};

}  // namespace hmann
