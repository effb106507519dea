#include "index/construct/graph/insert.h"

#include <algorithm>

#include "index/base/status_macros.h"
#include "index/construct/graph/reverse_links.h"
#include "index/graph/stepwise_search.h"

namespace hmann {
namespace {

constexpr NodeId kMaxBatch = 4096;
constexpr NodeId kBatchShare = 64;  ///< a batch is at most 1/64 of the inserted nodes

/// Searches for one node's neighbors step by step. Each step prefetches what the next one
/// reads.
class NeighborSearch {
 public:
  void Open(const InsertionGraph& graph, NodeId node, std::uint32_t width) {
    graph_ = &graph;
    node_ = node;
    width_ = width;
    level_ = graph.LevelOf(node);
    query_ = graph.View(0).Row(node);
    done_ = false;
    OpenLayer(graph.layers() - 1, 0);
  }

  /// Returns whether beam() holds all that layer() has to offer. Then NextLayer
  /// continues.
  bool Step() {
    NullLayerCounters none;
    if (!search_.Step(view_, query_, scratch_, none)) return false;
    if (!search_.is_greedy()) return true;
    OpenLayer(layer_ - 1, search_.nearest());
    return false;
  }

  /// Returns false below the last layer.
  bool NextLayer() {
    if (layer_ == 0) {
      done_ = true;
      return false;
    }
    // Everything found here opens the next layer. Visited nodes may be met again there
    // through other links.
    scratch_.visited.Clear();
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i)
      scratch_.visited.Insert(scratch_.beam.id(i));
    scratch_.beam.Reopen(width_);
    view_ = graph_->View(--layer_);
    search_.OpenFound(view_, width_, scratch_);
    return true;
  }

  bool Done() const { return done_; }
  NodeId node() const { return node_; }
  std::uint32_t layer() const { return layer_; }
  const Beam& beam() const { return scratch_.beam; }

 private:
  void OpenLayer(std::uint32_t layer, NodeId entry) {
    layer_ = layer;
    view_ = graph_->View(layer);
    NullLayerCounters none;
    if (layer > level_) {
      search_.OpenGreedy(view_, query_, entry, scratch_, none);
    } else {
      search_.OpenBeam(view_, query_, entry, width_, width_, scratch_, none);
    }
  }

  const InsertionGraph* graph_ = nullptr;
  const std::byte* query_ = nullptr;
  NodeId node_ = 0;
  std::uint32_t level_ = 0, layer_ = 0, width_ = 0;
  LayerView view_;
  StepwiseSearch search_;
  LayerScratch scratch_;
  bool done_ = true;
};

/// Nodes that one thread inserts at once. It computes for one while memory for the others
/// is in flight.
constexpr std::size_t kNodesInFlight = 4;

/// The scratch of one thread while it inserts.
struct InsertScratch {
  NeighborSearch searches[kNodesInFlight];
  std::vector<Candidate> candidates;
  std::vector<NodeId> selected;
  NeighborSelector selector;
};

class Inserter {
 public:
  Inserter(InsertionGraph& graph, const InsertOptions& options, ThreadPool& pool)
      : graph_(graph),
        options_(options),
        pool_(pool),
        reverse_(graph, options.alpha, pool),
        scratch_(static_cast<std::size_t>(pool.threads())) {}

  void InsertBatch(NodeId begin, NodeId end) {
    pool_.ParallelFor(end - begin, 32, [&](std::size_t first, std::size_t last, int thread) {
      LinkNodes(begin + static_cast<NodeId>(first), begin + static_cast<NodeId>(last), thread);
    });
    reverse_.Apply(graph_.LevelOf(begin) + 1);
  }

 private:
  /// Finds and sets the links of nodes [next, last). No link leads to a node of the batch
  /// yet, so all of them search the graph as it was.
  void LinkNodes(NodeId next, NodeId last, int thread) {
    InsertScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    const auto open_next = [&](NeighborSearch& search) {
      if (next == last) return false;
      search.Open(graph_, next++, options_.ef_construction);
      return true;
    };
    std::size_t busy = 0;
    for (NeighborSearch& search : scratch.searches) busy += open_next(search) ? 1 : 0;
    while (busy > 0) {
      for (NeighborSearch& search : scratch.searches) {
        if (search.Done() || !search.Step()) continue;
        SelectLinks(search, scratch, thread);
        if (!search.NextLayer() && !open_next(search)) --busy;
      }
    }
  }

  void SelectLinks(const NeighborSearch& search, InsertScratch& scratch, int thread) {
    const NodeId node = search.node();
    const std::uint32_t layer = search.layer();
    scratch.candidates.clear();
    for (std::uint32_t i = 0; i < search.beam().size(); ++i)
      scratch.candidates.push_back({search.beam().key(i), search.beam().id(i)});
    const LayerView view = graph_.View(layer);
    const std::uint32_t most = layer == 0 ? options_.bottom_links : options_.upper_links;
    scratch.selector.Select(scratch.candidates, std::min(most, view.max_degree),
                            layer == 0 ? options_.alpha : 1, view, &scratch.selected);
    std::copy(scratch.selected.begin(), scratch.selected.end(), graph_.Links(layer, node));
    for (NodeId target : scratch.selected) reverse_.Add(layer, target, node, thread);
  }

  InsertionGraph& graph_;
  const InsertOptions& options_;
  ThreadPool& pool_;
  ReverseLinks reverse_;
  std::vector<InsertScratch> scratch_;  ///< [thread]
};

}  // namespace

absl::Status InsertNodes(InsertionGraph& graph, NodeId count, const InsertOptions& options,
                         const TaskContext& job, const LinkedSoFar& from, const AfterBatch& after) {
  Inserter inserter(graph, options, job.pool);
  const NodeId first = std::max<NodeId>(from.inserted, 1);  // node 0 stands alone
  job.progress.Advance(first);
  for (NodeId begin = first; begin < count;) {
    HMANN_RETURN_IF_ERROR(job.CheckCancelled());
    NodeId size = std::clamp<NodeId>(begin / kBatchShare, 1, kMaxBatch);
    size = std::min(size, count - begin);
    // A batch does not cross the border of a layer, so that all its nodes have one level.
    const std::uint32_t level = graph.LevelOf(begin);
    size = std::min(size, graph.nodes(level) - begin);
    inserter.InsertBatch(begin, begin + size);
    job.progress.Advance(size);
    begin += size;
    if (after) HMANN_RETURN_IF_ERROR(after({begin, 0}));
  }
  return absl::OkStatus();
}

}  // namespace hmann
