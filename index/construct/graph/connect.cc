#include "index/construct/graph/connect.h"

#include <vector>

#include "index/base/check.h"
#include "index/base/prefetch.h"
#include "index/construct/graph/layer_searcher.h"

namespace hmann {
namespace {

/// A tree of paths from the entry to everything reachable, kept up to date as links are
/// added.
class ReachTree {
 public:
  ReachTree(InsertionGraph& graph, NodeId n, NodeId entry) : graph_(graph), parent_(n, kNoNode) {
    queue_.reserve(n);
    Reach(entry, entry);
  }

  bool Reachable(NodeId node) const { return parent_[node] != kNoNode; }

  /// Adds the link from -> node if `from` has room, or a link outside the tree. Returns
  /// whether it did.
  bool TryLink(NodeId from, NodeId node) {
    const std::uint32_t most = graph_.max_degree(0);
    NodeId* links = graph_.Links(0, from);
    std::uint32_t slot = CountLinks(links, most);
    if (slot == most) {
      while (slot > 0 && parent_[links[slot - 1]] == from) --slot;
      if (slot == 0) return false;
      --slot;
    }
    links[slot] = node;
    Reach(node, from);
    return true;
  }

 private:
  void Reach(NodeId node, NodeId from) {
    parent_[node] = from;
    queue_.assign(1, node);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      PrefetchAhead(i);
      const NodeId* links = graph_.Links(0, queue_[i]);
      for (std::uint32_t j = 0; j < graph_.max_degree(0) && links[j] != kNoNode; ++j) {
        if (parent_[links[j]] != kNoNode) continue;
        parent_[links[j]] = queue_[i];
        queue_.push_back(links[j]);
      }
    }
  }

  /// Lists and parents are scattered in memory. So the list of a node is prefetched some
  /// nodes before it is read, and the parents of its members a few nodes before.
  void PrefetchAhead(std::size_t i) const {
    constexpr std::size_t kLists = 16, kParents = 4;
    const std::uint32_t most = graph_.max_degree(0);
    if (i + kLists < queue_.size())
      PrefetchLines(graph_.Links(0, queue_[i + kLists]), most * sizeof(NodeId));
    if (i + kParents >= queue_.size()) return;
    const NodeId* links = graph_.Links(0, queue_[i + kParents]);
    for (std::uint32_t j = 0; j < most && links[j] != kNoNode; ++j)
      PrefetchLines(&parent_[links[j]], sizeof(NodeId));
  }

  InsertionGraph& graph_;
  std::vector<NodeId> parent_;  ///< the entry is its own
  std::vector<NodeId> queue_;
};

}  // namespace

ConnectReport ConnectAll(InsertionGraph& graph, NodeId n, NodeId entry, std::uint32_t ef,
                         const NodeVectors* elsewhere) {
  ConnectReport report;
  ReachTree tree(graph, n, entry);
  for (NodeId v = 0; v < n; ++v) report.unreachable += tree.Reachable(v) ? 0 : 1;
  if (report.unreachable == 0) return report;
  const LayerView view = graph.View(0);
  const NodeVectors own{.stride = view.row_stride, .count = n, .all = view.rows};
  LayerSearcher searcher(view, elsewhere == nullptr ? own : *elsewhere);
  for (NodeId v = 0; v < n; ++v) {
    if (tree.Reachable(v)) continue;
    // Everything that a search from the entry finds is reachable.
    const Beam& found = searcher.Run(searcher.Query(v), entry, ef);
    bool linked = false;
    for (std::uint32_t i = 0; i < found.size() && !linked; ++i)
      linked = tree.TryLink(found.id(i), v);
    // The tree needs all links of every found node. Any reachable node that can spare a
    // link will do.
    for (NodeId from = 0; from < n && !linked; ++from)
      linked = tree.Reachable(from) && tree.TryLink(from, v);
    HMANN_CHECK(linked);
    ++report.added_links;
  }
  return report;
}

bool AllReachable(InsertionGraph& graph, NodeId n, NodeId entry) {
  constexpr NodeId kBlock = 1 << 16;
  const std::uint32_t most = graph.max_degree(0);
  std::vector<bool> reached(n), expanded(n);
  std::vector<NodeId> waiting;  // of the block
  reached[entry] = true;
  std::uint64_t count = 1;
  for (bool found = true; found && count < n;) {
    found = false;
    for (NodeId first = 0; first < n; first += std::min(kBlock, n - first)) {
      const NodeId last = first + std::min(kBlock, n - first);
      for (NodeId node = first; node < last; ++node) {
        if (reached[node] && !expanded[node]) waiting.push_back(node);
      }
      while (!waiting.empty()) {
        const NodeId node = waiting.back();
        waiting.pop_back();
        if (expanded[node]) continue;
        expanded[node] = true;
        const NodeId* links = graph.Links(0, node);
        for (std::uint32_t i = 0; i < most && links[i] != kNoNode; ++i) {
          if (reached[links[i]]) continue;
          reached[links[i]] = found = true;
          ++count;
          if (links[i] >= first && links[i] < last) waiting.push_back(links[i]);
        }
      }
    }
  }
  return count == n;
}

}  // namespace hmann
