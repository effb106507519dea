#pragma once

#include <cstdint>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// Sizes of the layers: N_0 = n, N_1 as given, N_{i+1} = floor(N_i / M) while at least
/// one node is left. A node's level depends only on its rank: level(v) = max{ i : rank(v)
/// < N_i }. So every layer is a prefix of the ids (sections 4 and 11.c of doc/paper.md).
struct Layers {
  std::vector<NodeId> nodes;  ///< nodes[i] = N_i; strictly decreasing from N_1 on
  std::uint32_t m = 0;

  static Layers Make(NodeId n, NodeId n1, std::uint32_t m) {
    Layers layers{{n}, m};
    for (NodeId next = n1; next >= 1 && next < layers.nodes.back(); next /= m)
      layers.nodes.push_back(next);
    return layers;
  }

  std::uint32_t top() const { return static_cast<std::uint32_t>(nodes.size()) - 1; }
  NodeId n() const { return nodes[0]; }
  /// N_1, or 0 for an index without upper layers.
  NodeId n1() const { return nodes.size() > 1 ? nodes[1] : 0; }
  /// M_0 = M_1 = 2M, M_i = M above.
  std::uint32_t MaxDegree(std::uint32_t layer) const { return layer <= 1 ? 2 * m : m; }
  /// Bytes of the sum_{i>=1} N_i * M_i upper links, 4 bytes each.
  std::uint64_t UpperLinkBytes() const {
    std::uint64_t links = 0;
    for (std::uint32_t layer = 1; layer <= top(); ++layer)
      links += std::uint64_t{nodes[layer]} * MaxDegree(layer);
    return links * sizeof(NodeId);
  }
};

}  // namespace hmann
