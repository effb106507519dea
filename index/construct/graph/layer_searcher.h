#pragma once

#include <vector>

#include "index/construct/graph/node_vectors.h"
#include "index/graph/layer_search.h"

namespace hmann {

/// Searches a layer whose vectors may lie elsewhere. Then it copies the vectors that a
/// step compares first, which suits few searches. Use one per thread.
class LayerSearcher {
 public:
  /// `vectors`: those of the layer, whose own rows are not read. Both must outlive this.
  LayerSearcher(const LayerView& layer, const NodeVectors& vectors);

  /// The vector of a node; valid until the next call.
  const std::byte* Query(NodeId node) { return Take(node, layer_.max_degree); }
  /// Like OpenBeam and SearchLayer. Returns the final beam.
  const Beam& Run(const std::byte* query, NodeId entry, std::uint32_t width);
  LayerScratch& scratch() { return scratch_; }

 private:
  const std::byte* Take(NodeId node, std::size_t place);

  LayerView layer_;
  const NodeVectors& vectors_;
  std::vector<std::byte> places_;  ///< vectors of a step, and the query
  LayerScratch scratch_;
};

}  // namespace hmann
