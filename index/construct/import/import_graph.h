#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/graph/types.h"

namespace hmann {

/// Parameters that a finished HNSW graph was built with.
struct GraphParameters {
  std::uint32_t m = 0;                ///< M, 2 to 512
  std::uint32_t ef_construction = 0;  ///< as recorded; 1 to 100000
};

/// Level 0 of a finished HNSW graph that another library built over the rows of a base
/// file. Move-only.
struct ImportedGraph {
  NodeId n = 0;
  GraphParameters parameters;
  std::uint32_t max_degree = 0;  ///< 2M
  /// n x max_degree links, by row of the base file. Each list is packed to the front and
  /// padded with kNoNode; links are in range, without self-links or duplicates. The build
  /// continues in this very memory.
  Buffer links;

  NodeId* Links(std::uint64_t row) {
    return reinterpret_cast<NodeId*>(links.data()) + row * max_degree;
  }
};

/// A graph of n nodes without links. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<ImportedGraph> MakeUnlinked(NodeId n, const GraphParameters& parameters);

}  // namespace hmann
