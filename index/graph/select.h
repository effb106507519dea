#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/distance/distance.h"
#include "index/graph/types.h"

namespace hmann {

/// A scored candidate; ordered by (key, id).
struct Candidate {
  DistanceKey key;
  NodeId id;
  bool operator<(const Candidate& other) const { return key != other.key ? key < other.key : id < other.id; }
};

/// The neighbour-selection heuristic (Malkov & Yashunin 2018, alg. 4, without extending or keeping pruned candidates): going from near
/// to far, a candidate is kept unless one kept before is nearer to it than the node itself is.
///
/// candidates: sorted, scored against the node; at most `most` ids are appended to `out` (cleared first), nearest first.
/// rows/row_stride: as in LayerView.
void SelectNeighbours(std::span<const Candidate> candidates, std::uint32_t most, const Kernels& kernels, const std::byte* rows,
                      std::size_t row_stride, std::vector<NodeId>* out);

}  // namespace hmann
