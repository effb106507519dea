#include "index/construct/graph/bottom_layer.h"

#include <algorithm>
#include <numeric>

#include "index/base/status_macros.h"
#include "index/construct/graph/degree.h"
#include "index/construct/graph/insert.h"
#include "index/construct/graph/refine.h"

namespace hmann {

namespace {

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

absl::StatusOr<InsertionGraph> OpenLayers(const InsertionSource& source,
                                          const InsertionGraph::Allocate& allocate) {
  std::vector<NodeId> nodes = {source.n};
  std::vector<std::uint32_t> max_degree = {2 * source.m};
  for (NodeId next = source.made / source.m; next > 0; next /= source.m) {
    nodes.push_back(next);
    max_degree.push_back(source.m);
  }
  return InsertionGraph::Make(nodes, max_degree, source.rows->rows.data(), source.rows->stride,
                              source.kernels, allocate);
}

absl::Status InsertBottom(const InsertionSource& source, InsertionGraph& graph,
                          const LinkedSoFar& from, const AfterBatch& after, Phases& phases,
                          const TaskContext& job) {
  if (from.inserted < source.made) {
    phases.Begin("insert", source.made, "vectors");
    const InsertOptions insert{source.ef_construction, source.m, source.m, source.alpha};
    HMANN_RETURN_IF_ERROR(InsertNodes(graph, source.made, insert, job, from, after));
    phases.End("insert");
  }
  if (source.alpha > 1 && from.refined < source.made) {
    phases.Begin("refine", source.made, "vectors");
    HMANN_RETURN_IF_ERROR(RefineLinks(graph, source.made, source.alpha, job, from, after));
    phases.End("refine");
  }
  return absl::OkStatus();
}

absl::StatusOr<Backbone> MakeBackbone(
    const InsertionSource& source, const InsertionGraph& graph,
    const std::function<absl::StatusOr<StoredVectors>(const std::vector<NodeId>&)>& gather,
    const TaskContext& job) {
  Backbone made;
  const NodeId count = BackboneOf(source.made, kBackboneOfL0);
  made.nodes = HighestDegrees(graph, source.made, count, job.pool, source.room);
  HMANN_ASSIGN_OR_RETURN(made.rows, gather(made.nodes));
  InsertionSource inserted = source;
  inserted.rows = &made.rows;
  inserted.n = inserted.made = count;
  HMANN_ASSIGN_OR_RETURN(made.graph, OpenLayers(inserted));
  const InsertOptions insert{source.ef_construction, 2 * source.m, source.m, source.alpha};
  HMANN_RETURN_IF_ERROR(InsertNodes(made.graph, count, insert, job));
  return made;
}

}  // namespace hmann
