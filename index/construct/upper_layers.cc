#include "index/construct/upper_layers.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/build_bytes.h"
#include "index/construct/checkpoints.h"
#include "index/construct/graph/bottom_layer.h"
#include "index/construct/graph/connect.h"
#include "index/construct/graph/insert.h"
#include "index/construct/graph/reverse_links.h"
#include "index/construct/jobs/part_loader.h"
#include "index/construct/jobs/partition.h"
#include "index/construct/joined_upper.h"

namespace hmann {
namespace {

/// Loads vectors for some steps, which are nodes, at a time. All must outlive `sources`.
void LoadBySteps(const std::vector<NodeId>& id_of_node, NodeId n1, PartLoader& loader,
                 CellSources& sources) {
  sources.load = [&id_of_node, n1, &loader](NodeRange steps, NodeId run, const auto& find) {
    const auto collect = [&](NodeRange part, NodeSubset* wanted) {
      for (NodeId node = part.first; wanted != nullptr && node < part.last; ++node) {
        if (id_of_node[node] >= n1) wanted->Add(node);
      }
      return std::uint64_t{0};
    };
    return loader.For(steps, run, collect, find);
  };
}

}  // namespace

absl::StatusOr<UpperLayers> UpperLayers::Make(const UpperSource& source, Phases& phases,
                                              const TaskContext& job) {
  const NodeId n1 = source.layers.n1();
  const std::vector<std::uint32_t> promoted(source.node_of_id.begin(),
                                            source.node_of_id.begin() + n1);
  HMANN_ASSIGN_OR_RETURN(StoredVectors rows, source.rows.Gather(promoted, job.pool));
  UpperLayers upper(source, std::move(rows));
  HMANN_ASSIGN_OR_RETURN(
      upper.graph_,
      upper.Link({source.kernels, source.alpha, "promote", "L1 ", "l1"}, phases, job));
  upper.added_links_ = ConnectAll(upper.graph_, n1, 0, source.ef_construction).added_links;
  return upper;
}

absl::StatusOr<InsertionGraph> UpperLayers::Link(const Purpose& purpose, Phases& phases,
                                                 const TaskContext& job) const {
  const Layers& layers = source_.layers;
  const std::vector<NodeId> nodes(layers.nodes.begin() + 1, layers.nodes.end());
  std::vector<std::uint32_t> max_degree;
  for (std::uint32_t layer = 1; layer <= layers.top(); ++layer)
    max_degree.push_back(layers.MaxDegree(layer));
  HMANN_ASSIGN_OR_RETURN(
      InsertionGraph graph,
      InsertionGraph::Make(nodes, max_degree, rows_.rows.data(), rows_.stride, purpose.kernels));
  const InsertOptions insert{source_.ef_construction, 2 * source_.m, source_.m, purpose.alpha};
  const NodeId inserted = Inserted();
  Checkpoints kept(source_.work, "l1-inserted", graph, inserted);
  if (const LinkedSoFar from = kept.Restore(); from.inserted < inserted) {
    phases.Begin(purpose.phase, inserted, "nodes");
    HMANN_RETURN_IF_ERROR(InsertNodes(graph, inserted, insert, job, from, kept.AfterEach()));
    phases.End(purpose.phase);
  }
  if (inserted < layers.n1()) HMANN_RETURN_IF_ERROR(JoinLowest(purpose, graph, phases, job));
  return graph;
}

NodeId UpperLayers::Inserted() const {
  const Layers& layers = source_.layers;
  if (source_.method == BuildMethod::kInsertion) return layers.n1();
  return std::max(BackboneOf(layers.n1(), kBackboneOfL1), layers.top() > 1 ? layers.nodes[2] : 0);
}

absl::Status UpperLayers::JoinLowest(const Purpose& purpose, InsertionGraph& graph, Phases& phases,
                                     const TaskContext& job) const {
  std::vector<NodeId> nodes(source_.layers.n1());
  std::iota(nodes.begin(), nodes.end(), NodeId{0});
  const Stages stages(purpose.stage, purpose.layer, source_.work, phases, job, source_.workers);
  if (source_.work.on_disk()) {
    std::vector<std::uint32_t> row_of_id(source_.layers.n1());
    for (NodeId id = 0; id < row_of_id.size(); ++id)
      row_of_id[id] = source_.row_of[source_.node_of_id[id]];
    HMANN_RETURN_IF_ERROR(UpperNodes::Write(nodes, row_of_id, stages));
  }
  HMANN_ASSIGN_OR_RETURN(
      JoinedUpper joined,
      JoinUpper({.kernels = purpose.kernels,
                 .stride = rows_.stride,
                 .unique = nodes,
                 .copy = [&](std::uint32_t id,
                             std::byte* place) { std::memcpy(place, rows_.Row(id), rows_.stride); },
                 .m = source_.m,
                 .alpha = purpose.alpha,
                 .partition = PartitionFor(nodes.size(), source_.seed),
                 .room = source_.room},
                stages));
  const auto count = static_cast<NodeId>(joined.id_of.size());
  InsertionGraph made = InsertionGraph::Over(std::move(joined.links), count, purpose.kernels);
  phases.Begin(purpose.layer + "merge", count, "nodes");
  MergeLinks(made, count, joined.id_of, purpose.alpha, graph, job.pool);
  phases.End(purpose.layer + "merge");
  return absl::OkStatus();
}

absl::StatusOr<CellAssignment> UpperLayers::MakeCells(InsertionGraph& bottom,
                                                      std::uint32_t replicas, Phases& phases,
                                                      const TaskContext& job) const {
  const NodeId n = source_.layers.n(), n1 = source_.layers.n1();
  // The ids of promoted nodes. The others have n1 and their place until they are ordered.
  std::vector<NodeId> id_of_node(n);
  for (NodeId id = 0; id < n; ++id) id_of_node[source_.node_of_id[id]] = id;
  const NodeId* others = source_.node_of_id.data() + n1;
  CellSources sources;
  sources.count = n - n1;
  const std::uint64_t room =
      source_.work.on_disk() ? source_.room : std::min(source_.room, kCopyRoom);
  PartLoader loader(source_.rows, room, PartLoader::Costs{.of_part = 2 * sizeof(NodeId)}, job);
  sources.row = [&](std::size_t i) { return loader.Row(others[i]); };
  sources.neighbors = [&](std::size_t i, std::vector<NodeId>& promoted) {
    std::vector<NodeId> scratch;
    for (const NodeId link : bottom.List(others[i], scratch)) {
      if (id_of_node[link] < n1) promoted.push_back(id_of_node[link]);
    }
  };
  // Vectors and links lie by node.
  sources.steps = n;
  sources.place = [&](std::size_t node) {
    return id_of_node[node] < n1 ? CellSources::kNoPlace : std::size_t{id_of_node[node]} - n1;
  };
  // Links made for inner products do not lead to the nearest by L2. So a separate graph
  // over the promoted nodes is made for this purpose. Its alpha is fixed, because such an
  // index does not record the alpha that the build was given.
  const InsertionGraph* graph = &graph_;
  std::optional<InsertionGraph> by_l2;
  const Kernels& kernels = source_.vectors;
  HMANN_ASSIGN_OR_RETURN(const Kernels l2, ChooseKernels(kernels.dtype, Metric::kL2, kernels.dim));
  if (kernels.metric == Metric::kInnerProduct) {
    HMANN_ASSIGN_OR_RETURN(
        InsertionGraph made,
        Link({l2, kDefaultAlpha, "centroids", "centroids' ", "centroids"}, phases, job));
    graph = &by_l2.emplace(std::move(made));
    sources.neighbors = [](std::size_t, std::vector<NodeId>&) {};
    // Promoted nodes have large norms and the others do not, so these are far from all of
    // them.
    constexpr std::uint32_t kWide = 32;
    sources.width = kWide;
  }
  std::vector<LayerView> upper;
  for (std::uint32_t layer = 0; layer < graph->layers(); ++layer)
    upper.push_back(graph->View(layer));
  LoadBySteps(id_of_node, n1, loader, sources);
  return AssignCells(sources, upper, replicas, Stages("l1", "", source_.work, phases, job));
}

}  // namespace hmann
