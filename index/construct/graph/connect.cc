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
    const std::span<const NodeId> links = graph_.List(from, list_);
    auto slot = static_cast<std::uint32_t>(links.size());
    if (slot == most) {
      while (slot > 0 && parent_[links[slot - 1]] == from) --slot;
      if (slot == 0) return false;
      --slot;
    }
    graph_.SetLink(from, slot, node);
    Reach(node, from);
    return true;
  }

 private:
  void Reach(NodeId node, NodeId from) {
    parent_[node] = from;
    queue_.assign(1, node);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      PrefetchAhead(i);
      for (const NodeId link : graph_.List(queue_[i], list_)) {
        if (parent_[link] != kNoNode) continue;
        parent_[link] = queue_[i];
        queue_.push_back(link);
      }
    }
  }

  /// Lists and parents are scattered in memory. So the list of a node is prefetched some
  /// nodes before it is read, and the parents of its members a few nodes before.
  void PrefetchAhead(std::size_t i) {
    constexpr std::size_t kLists = 16, kParents = 4;
    if (i + kLists < queue_.size()) graph_.PrefetchList(queue_[i + kLists]);
    if (i + kParents >= queue_.size()) return;
    for (const NodeId link : graph_.List(queue_[i + kParents], list_))
      PrefetchLines(&parent_[link], sizeof(NodeId));
  }

  InsertionGraph& graph_;
  std::vector<NodeId> parent_;  ///< the entry is its own
  std::vector<NodeId> queue_, list_;
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
  LayerSearcher searcher(graph, elsewhere == nullptr ? own : *elsewhere);
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
  std::vector<bool> reached(n), expanded(n);
  std::vector<NodeId> waiting, list;  // of the block; of a node
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
        for (const NodeId link : graph.List(node, list)) {
          if (reached[link]) continue;
          reached[link] = found = true;
          ++count;
          if (link >= first && link < last) waiting.push_back(link);
        }
      }
    }
  }
  return count == n;
}

}  // namespace hmann
