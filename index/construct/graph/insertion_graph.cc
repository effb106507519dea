#include "index/construct/graph/insertion_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<InsertionGraph> InsertionGraph::Make(std::vector<NodeId> nodes,
                                                    std::vector<std::uint32_t> max_degree,
                                                    const std::byte* rows, std::size_t row_stride,
                                                    const Kernels& kernels,
                                                    const Allocate& allocate) {
  InsertionGraph graph;
  for (std::size_t layer = 0; layer < nodes.size(); ++layer) {
    const std::size_t bytes =
        static_cast<std::size_t>(nodes[layer]) * max_degree[layer] * sizeof(NodeId);
    HMANN_ASSIGN_OR_RETURN(Buffer links, allocate(bytes));
    if (bytes > 0) std::memset(links.data(), 0xff, bytes);
    graph.links_.push_back(std::move(links));
  }
  graph.nodes_ = std::move(nodes);
  graph.max_degree_ = std::move(max_degree);
  graph.rows_ = rows;
  graph.row_stride_ = row_stride;
  graph.kernels_ = &kernels;
  return graph;
}

InsertionGraph InsertionGraph::Over(Buffer links, NodeId nodes, std::uint32_t max_degree,
                                    const Kernels& kernels) {
  InsertionGraph graph;
  graph.links_.push_back(std::move(links));
  graph.nodes_ = {nodes};
  graph.max_degree_ = {max_degree};
  graph.kernels_ = &kernels;
  return graph;
}

InsertionGraph InsertionGraph::Over(PackedLists lists, NodeId nodes, const Kernels& kernels) {
  InsertionGraph graph = Over(Buffer(), nodes, lists.max_links(), kernels);
  graph.packed_ = std::move(lists);
  return graph;
}

std::span<const NodeId> InsertionGraph::List(NodeId node, std::vector<NodeId>& scratch) const {
  if (!packed_.empty()) return packed_.Read(node, scratch);
  const NodeId* links = View(0).Links(node);
  return {links, CountLinks(links, max_degree_[0])};
}

void InsertionGraph::SetLink(NodeId node, std::uint32_t place, NodeId to) {
  if (packed_.empty()) {
    Links(0, node)[place] = to;
    return;
  }
  std::vector<NodeId> list;
  list.resize(packed_.Read(node, list).size());
  list.resize(std::max<std::size_t>(list.size(), place + 1));
  list[place] = to;
  packed_.Write(node, list);
}

std::uint32_t InsertionGraph::LevelOf(NodeId node) const {
  std::uint32_t level = 0;
  while (level + 1 < layers() && node < nodes_[level + 1]) ++level;
  return level;
}

LayerView InsertionGraph::View(std::uint32_t layer) const {
  return {reinterpret_cast<const NodeId*>(links_[layer].data()),
          nodes_[layer],
          max_degree_[layer],
          rows_,
          row_stride_,
          kernels_};
}

void InsertionGraph::DropUpperLayers() {
  links_.resize(1);
  nodes_.resize(1);
  max_degree_.resize(1);
}

NodeId InsertionGraph::Descend(const std::byte* query, std::uint32_t layer,
                               LayerScratch& scratch) const {
  NullLayerCounters counters;
  NodeId entry = 0;
  for (std::uint32_t above = layers() - 1; above > layer; --above)
    entry = GreedySearch(View(above), query, entry, scratch, counters);
  return entry;
}

}  // namespace hmann
