#pragma once

#include <vector>

#include "index/construct/graph/node_vectors.h"
#include "index/graph/layer_search.h"

namespace hmann {

/// Searches a layer whose vectors may lie elsewhere: then those that a step compares are
/// copied first, which is for few searches. One per thread.
class LayerSearcher {
 public:
  /// `vectors`: of the layer, whose own rows are not read. Both must outlive it.
  LayerSearcher(const LayerView& layer, const NodeVectors& vectors);

  /// The vector of a node; valid until the next call.
  const std::byte* Query(NodeId node) { return Take(node, layer_.max_degree); }
  /// As OpenBeam and SearchLayer, whose beam is left.
  const Beam& Run(const std::byte* query, NodeId entry, std::uint32_t width);
  LayerScratch& scratch() { return scratch_; }

 private:
  const std::byte* Take(NodeId node, std::size_t place);

  LayerView layer_;
  const NodeVectors& vectors_;
  std::vector<std::byte> places_;  ///< those of a step, and the query
  LayerScratch scratch_;
};

}  // namespace hmann
