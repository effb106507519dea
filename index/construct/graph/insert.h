#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "index/base/task_context.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/graph/types.h"

namespace hmann {

struct InsertOptions {
  std::uint32_t ef_construction = 100;
  /// Neighbors chosen for a new node in the bottom layer (M in phase 1, M_1 in phase 2).
  std::uint32_t bottom_links = 16;
  std::uint32_t upper_links = 16;  ///< the same for the layers above it
  float alpha = 1;                 ///< for the bottom layer; see NeighborSelector
};

/// How far the nodes of a graph are linked. It is known between two batches.
struct LinkedSoFar {
  NodeId inserted = 0;  ///< nodes [0, inserted) are inserted
  NodeId refined = 0;   ///< and nodes [0, refined) refined
};
/// Called after each batch. Its error ends the linking.
using AfterBatch = std::function<absl::Status(const LinkedSoFar&)>;

/// Inserts nodes 0, 1, 2, ... of the bottom layer up to `count` top-down (Malkov &
/// Yashunin 2018, alg. 1), in batches. The nodes of a batch are searched in parallel on
/// the graph as it was before the batch. Then their reverse links are added target by
/// target. A batch is at most a sixty-fourth of the nodes inserted before it, so its
/// nodes miss little of each other. No step depends on the number of threads, so neither
/// does the graph. Goes on from `from`, at which `after` was called before. Errors:
/// CANCELLED; those of `after`.
absl::Status InsertNodes(InsertionGraph& graph, NodeId count, const InsertOptions& options,
                         const TaskContext& job, const LinkedSoFar& from = {},
                         const AfterBatch& after = nullptr);

}  // namespace hmann
