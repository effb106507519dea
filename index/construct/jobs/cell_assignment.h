#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "index/construct/jobs/node_range.h"
#include "index/construct/jobs/stages.h"
#include "index/graph/cells.h"
#include "index/graph/layer_search.h"

namespace hmann {

/// The unpromoted nodes, named by their place 0 .. count - 1. Called from several
/// threads.
struct CellSources {
  std::size_t count = 0;
  std::function<const std::byte*(std::size_t i)> row;  ///< stored vector
  /// Ids of promoted nodes near it to begin at, its neighbours in L0, appended; none: the
  /// search comes down from the top.
  std::function<void(std::size_t i, std::vector<NodeId>& promoted)> neighbours;
  std::uint32_t width = 8;  ///< of the search
  /// They are looked at in the order in which vectors and links lie: step j < steps is of
  /// place(j), or of none (kNoPlace).
  static constexpr std::size_t kNoPlace = ~std::size_t{0};
  NodeId steps = 0;
  std::function<std::size_t(std::size_t j)> place;
  /// Calls `find` for parts of some steps when row() is valid for their nodes. Steps up
  /// to `run` come next.
  std::function<absl::Status(NodeRange steps, NodeId run,
                             const std::function<absl::Status(NodeRange)>& find)>
      load;
};

/// The centroids of the unpromoted nodes, and the order of ids that follows.
struct CellAssignment {
  std::vector<std::uint32_t>
      order;  ///< places in the order of their ids: order[j] becomes id n1 + j
  std::vector<CellEntry> cells;
  std::vector<NodeId> second_centroids;  ///< of id n1 + j; empty when replicas is 1
};

/// Finds the promoted node nearest to each unpromoted one, by a narrow search of L1.
/// Nearest is by squared L2 (under cosine: of normalised vectors, which is the order of
/// the cosine): an index of inner products needs upper layers of their own here. Cells
/// are put into the order of a hierarchy: each centroid beside those that have the same
/// nearest node one layer up, and so on to the top; the members of a cell are ordered by
/// their second-nearest centroid. The outcome does not depend on threads. `upper`: layers
/// 1, 2, ... by id, at least one, whose kernels are L2 or cosine. Errors: CANCELLED;
/// INVALID_ARGUMENT when replicas is not 1 or 2 or exceeds N_1. `stages`: the searches go
/// by jobs, and tell their phase.
absl::StatusOr<CellAssignment> AssignCells(const CellSources& sources,
                                           const std::vector<LayerView>& upper,
                                           std::uint32_t replicas, Stages stages);

}  // namespace hmann
