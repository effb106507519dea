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

/// The unpromoted nodes, numbered by their place 0 .. count - 1. Several threads call the
/// functions.
struct CellSources {
  std::size_t count = 0;
  std::function<const std::byte*(std::size_t i)> row;  ///< stored vector
  /// Appends the ids of promoted nodes near node i, its neighbors in L0, as entry points.
  /// If there are none, the search descends from the top.
  std::function<void(std::size_t i, std::vector<NodeId>& promoted)> neighbors;
  std::uint32_t width = 8;  ///< of the search
  /// Nodes are visited in the order in which vectors and links lie. Step j < steps visits
  /// place(j), or none (kNoPlace).
  static constexpr std::size_t kNoPlace = ~std::size_t{0};
  NodeId steps = 0;
  std::function<std::size_t(std::size_t j)> place;
  /// Calls `find` for parts of some steps when row() is valid for their nodes. Steps up
  /// to `run` come next.
  std::function<absl::Status(NodeRange steps, NodeId run,
                             const std::function<absl::Status(NodeRange)>& find)>
      load;
};

/// The centroids of the unpromoted nodes, and the resulting order of ids.
struct CellAssignment {
  std::vector<std::uint32_t> order;  ///< places in the order of ids: order[j] becomes id n1 + j
  std::vector<CellEntry> cells;
  std::vector<NodeId> second_centroids;  ///< of id n1 + j; empty if replicas is 1
};

/// Finds the promoted node nearest to each unpromoted one, by a narrow search of L1.
/// Nearness is squared L2 (under cosine: of normalized vectors, which gives the order of
/// the cosine). An index of inner products needs separate upper layers here.
///
/// Cells are ordered by a hierarchy: each centroid stands next to those with the same
/// nearest node one layer up, and so on to the top. The members of a cell are ordered by
/// their second-nearest centroid. The outcome does not depend on threads.
///
/// `upper`: layers 1, 2, ... by id, at least one, whose kernels are L2 or cosine.
/// `stages`: the searches run as its jobs and report their phase. Errors: CANCELLED;
/// INVALID_ARGUMENT if replicas is not 1 or 2, or exceeds N_1.
absl::StatusOr<CellAssignment> AssignCells(const CellSources& sources,
                                           const std::vector<LayerView>& upper,
                                           std::uint32_t replicas, Stages stages);

}  // namespace hmann
