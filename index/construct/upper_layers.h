#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/distance.h"
#include "index/base/task_context.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/graph/phases.h"
#include "index/construct/graph/vectors.h"
#include "index/construct/jobs/artifacts.h"
#include "index/construct/jobs/cell_assignment.h"
#include "index/construct/jobs/workers.h"
#include "index/graph/layers.h"

namespace hmann {

/// The inputs of the upper layers. Nodes are named by *node* (as in `rows`) or *id*
/// (place in the index); the first layers.n1() ids are promoted. Must outlive the layers.
struct UpperSource {
  const Layers& layers;
  const Kernels& vectors;                    ///< those of the index
  const Kernels& kernels;                    ///< for making links: lift.h
  const NodeVectors& rows;                   ///< by node
  const std::vector<std::uint32_t>& row_of;  ///< of the base, by node
  const std::vector<NodeId>& node_of_id;     ///< of every node
  BuildMethod method;                        ///< for L1 below its highest ranks
  std::uint32_t m, ef_construction;
  float alpha;
  std::uint64_t seed;
  const Artifacts& work;          ///< for the stages that join L1
  const BuildJobRunner* workers;  ///< helpers, or nullptr
  std::uint64_t room;             ///< bytes that one of their jobs may load
};

/// Phase 2: layers 1, 2, ... of the promoted nodes, by id, all reachable from id 0.
/// Either all nodes are inserted in order of rank, or only the first of them, and L1 is
/// joined by leaves.
class UpperLayers {
 public:
  /// At least one node must be promoted. Errors: RESOURCE_EXHAUSTED, CANCELLED.
  static absl::StatusOr<UpperLayers> Make(const UpperSource& source, Phases& phases,
                                          const TaskContext& job);

  /// Its layer 0 is L1.
  InsertionGraph& graph() { return graph_; }
  const std::byte* Row(NodeId id) const { return rows_.Row(id); }
  /// Links that were added to make all nodes reachable.
  std::uint64_t added_links() const { return added_links_; }

  /// Makes the cells of the unpromoted nodes; place i is id n1 + i. `bottom`: L0, by
  /// node. Errors: those of AssignCells, and RESOURCE_EXHAUSTED.
  absl::StatusOr<CellAssignment> MakeCells(InsertionGraph& bottom, std::uint32_t replicas,
                                           Phases& phases, const TaskContext& job) const;

 private:
  UpperLayers(const UpperSource& source, StoredVectors rows)
      : source_(source), rows_(std::move(rows)) {}

  /// The number of promoted nodes that are inserted: the first ones.
  NodeId Inserted() const;
  /// The purpose of a graph over the promoted nodes: its kernels, which must outlive it,
  /// and the names of its phases.
  struct Purpose {
    const Kernels& kernels;
    float alpha;
    std::string phase, layer;  ///< "promote", "L1 "
    std::string stage;         ///< prefix of artifact names: "l1"
  };
  absl::StatusOr<InsertionGraph> Link(const Purpose& purpose, Phases& phases,
                                      const TaskContext& job) const;
  /// Joins the lowest layer of `graph`.
  absl::Status JoinLowest(const Purpose& purpose, InsertionGraph& graph, Phases& phases,
                          const TaskContext& job) const;

  UpperSource source_;
  StoredVectors rows_;  ///< by id
  InsertionGraph graph_;
  std::uint64_t added_links_ = 0;
};

}  // namespace hmann
