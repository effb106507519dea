#include "index/construct/graph/bottom_layer.h"

#include <algorithm>
#include <numeric>

#include "index/base/status_macros.h"
#include "index/construct/graph/degree.h"
#include "index/construct/graph/insert.h"
#include "index/construct/graph/refine.h"

namespace hmann {

namespace {

/// Makes layers over the first `made` of n rows, without links yet.
absl::StatusOr<InsertionGraph> MakeLayers(const InsertionSource& source, NodeId n, NodeId made,
                                          const std::byte* rows, std::size_t stride) {
  std::vector<NodeId> nodes = {n};
  std::vector<std::uint32_t> max_degree = {2 * source.m};
  for (NodeId next = made / source.m; next > 0; next /= source.m) {
    nodes.push_back(next);
    max_degree.push_back(source.m);
  }
  return InsertionGraph::Make(nodes, max_degree, rows, stride, source.kernels);
}

/// Returns the first `count` of `nodes` by degree, ties by number.
std::vector<NodeId> HighestDegrees(const InsertionGraph& graph, NodeId nodes, NodeId count,
                                   ThreadPool& pool, std::uint64_t room) {
  const std::vector<std::uint32_t> degrees = ComputeDegrees(graph, pool, room);
  std::vector<NodeId> ranked(nodes);
  std::iota(ranked.begin(), ranked.end(), NodeId{0});
  std::partial_sort(ranked.begin(), ranked.begin() + count, ranked.end(), [&](NodeId a, NodeId b) {
    return degrees[a] != degrees[b] ? degrees[a] > degrees[b] : a < b;
  });
  ranked.resize(count);
  return ranked;
}

}  // namespace

absl::StatusOr<InsertionGraph> InsertBottom(const InsertionSource& source, Phases& phases,
                                            const TaskContext& job) {
  HMANN_ASSIGN_OR_RETURN(
      InsertionGraph graph,
      MakeLayers(source, source.n, source.made, source.rows->rows.data(), source.rows->stride));
  phases.Begin("insert", source.made, "vectors");
  const InsertOptions insert{source.ef_construction, source.m, source.m, source.alpha};
  HMANN_RETURN_IF_ERROR(InsertNodes(graph, source.made, insert, job));
  phases.End("insert");
  if (source.alpha > 1) {
    phases.Begin("refine", source.made, "vectors");
    HMANN_RETURN_IF_ERROR(RefineLinks(graph, source.made, source.alpha, job));
    phases.End("refine");
  }
  return graph;
}

absl::StatusOr<Backbone> MakeBackbone(
    const InsertionSource& source, const InsertionGraph& graph,
    const std::function<absl::StatusOr<StoredVectors>(const std::vector<NodeId>&)>& gather,
    const TaskContext& job) {
  Backbone made;
  const NodeId count = BackboneOf(source.made, kBackboneOfL0);
  made.nodes = HighestDegrees(graph, source.made, count, job.pool, source.room);
  HMANN_ASSIGN_OR_RETURN(made.rows, gather(made.nodes));
  HMANN_ASSIGN_OR_RETURN(made.graph,
                         MakeLayers(source, count, count, made.rows.rows.data(), made.rows.stride));
  const InsertOptions insert{source.ef_construction, 2 * source.m, source.m, source.alpha};
  HMANN_RETURN_IF_ERROR(InsertNodes(made.graph, count, insert, job));
  return made;
}

}  // namespace hmann
