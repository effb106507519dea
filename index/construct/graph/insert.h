#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/graph/types.h"

namespace hmann {

struct InsertOptions {
  std::uint32_t ef_construction = 100;
  std::uint32_t bottom_links =
      16;  ///< neighbours chosen for a new node in the bottom layer (M in phase 1, M_1 in phase 2)
  std::uint32_t upper_links = 16;  ///< and in the layers above it
  float alpha = 1;                 ///< of the bottom layer; see NeighbourSelector
  const std::vector<bool>* left_out =
      nullptr;  ///< [node], not owned: nodes that stay without links; never node 0
};

/// Inserts nodes 0, 1, 2, ... of the bottom layer up to `count` top-down (Malkov &
/// Yashunin 2018, alg. 1) in batches: the nodes of a batch are searched in parallel on
/// the graph as it was before the batch, then their reverse links are added target by
/// target. A batch is at most a sixty-fourth of what is there, so that what its nodes
/// miss of each other is little. No step depends on the number of threads, so neither
/// does the graph. Errors: CANCELLED.
absl::Status InsertNodes(InsertionGraph& graph, NodeId count, const InsertOptions& options,
                         const Job& job);

}  // namespace hmann
