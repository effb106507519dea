#include "index/construct/import/import_graph.h"

#include <cstring>

#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<ImportedGraph> MakeUnlinked(NodeId n, const GraphParameters& parameters) {
  ImportedGraph graph;
  graph.n = n;
  graph.parameters = parameters;
  graph.max_degree = 2 * parameters.m;
  const std::size_t bytes = std::size_t{n} * graph.max_degree * sizeof(NodeId);
  HMANN_ASSIGN_OR_RETURN(graph.links, Buffer::Allocate(bytes));
  std::memset(graph.links.data(), 0xff, bytes);
  return graph;
}

}  // namespace hmann
