#include "index/construct/bottom_layer.h"

#include "index/base/status_macros.h"
#include "index/construct/insert.h"
#include "index/construct/join.h"
#include "index/construct/nearest_links.h"
#include "index/construct/refine.h"

namespace hmann {

absl::StatusOr<InsertionGraph> InsertBottom(const BottomSource& source, Phases& phases,
                                            const Job& job) {
  std::vector<NodeId> nodes = {source.n};
  std::vector<std::uint32_t> max_degree = {2 * source.m};
  for (NodeId next = source.made / source.m; next > 0; next /= source.m) {
    nodes.push_back(next);
    max_degree.push_back(source.m);
  }
  HMANN_ASSIGN_OR_RETURN(InsertionGraph graph,
                         InsertionGraph::Make(nodes, max_degree, source.rows.rows.data(),
                                              source.rows.stride, source.kernels));
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

absl::StatusOr<InsertionGraph> JoinBottom(const BottomSource& source, Partition partition,
                                          const std::string& layer, Phases& phases,
                                          const Job& job) {
  HMANN_ASSIGN_OR_RETURN(InsertionGraph graph,
                         InsertionGraph::Make({source.n}, {2 * source.m}, source.rows.rows.data(),
                                              source.rows.stride, source.kernels));
  {
    phases.Begin(layer + "join", partition.memberships(), "vectors");
    HMANN_ASSIGN_OR_RETURN(NearestLists nearest, NearestLists::Make(source.made, 2 * source.m));
    HMANN_RETURN_IF_ERROR(JoinLeaves(std::move(partition), source.rows, source.kernels,
                                     PartitionFor(source.seed), nearest, job));
    phases.End(layer + "join");
    phases.Begin(layer + "select", source.made, "vectors");
    HMANN_RETURN_IF_ERROR(LinkNearest(nearest, source.made, source.alpha, graph, job));
    phases.End(layer + "select");
  }
  phases.Begin(layer + "link back", source.made, "vectors");
  HMANN_RETURN_IF_ERROR(LinkBack(source.made, source.alpha, graph, job));
  phases.End(layer + "link back");
  return graph;
}

}  // namespace hmann
