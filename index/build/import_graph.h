#pragma once

#include <cstdint>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// Level 0 of a finished HNSW graph that another library built over the rows of a base file.
struct ImportedGraph {
  std::uint32_t m = 0;                ///< M, 2 to 512
  std::uint32_t ef_construction = 0;  ///< as recorded; 1 to 100000
  std::uint32_t max_degree = 0;       ///< 2M
  /// base.n() x max_degree, by row of the base file: each list is packed to the front and filled up with kNoNode; in range, no
  /// self-link, no duplicate.
  std::vector<NodeId> links;

  NodeId* Links(std::uint64_t row) { return links.data() + row * max_degree; }
  const NodeId* Links(std::uint64_t row) const { return links.data() + row * max_degree; }
};

}  // namespace hmann
