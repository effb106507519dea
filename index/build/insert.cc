#include "index/build/insert.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "index/base/status_macros.h"
#include "index/graph/select.h"

namespace hmann {
namespace {

constexpr NodeId kMaxBatch = 4096;
constexpr NodeId kBatchShare = 64;  ///< a batch is at most 1/64 of the nodes that are there
constexpr std::size_t kShards = 64;

/// A reverse link to be added, ordered by (target, source).
using ReverseLink = std::uint64_t;
ReverseLink MakeReverseLink(NodeId target, NodeId source) { return (static_cast<std::uint64_t>(target) << 32) | source; }

/// The search for one node's neighbours, a step at a time: each step fetches what the next one reads.
class NeighbourSearch {
 public:
  void Open(const InsertionGraph& graph, NodeId node, std::uint32_t width) {
    graph_ = &graph;
    node_ = node;
    width_ = width;
    level_ = graph.LevelOf(node);
    query_ = graph.View(0).Row(node);
    OpenLayer(graph.layers() - 1, 0);
  }

  /// Returns whether beam() holds what layer() has to offer; then NextLayer goes on.
  bool Step() {
    NullLayerCounters none;
    switch (stage_) {
      case Stage::kDescend:
        greedy_.Gather(view_, scratch_);
        stage_ = Stage::kScoreDescent;
        return false;
      case Stage::kScoreDescent:
        stage_ = Stage::kDescend;
        if (greedy_.Score(view_, query_, scratch_, none)) {
          PrefetchLines(view_.Links(greedy_.nearest()), view_.max_degree * sizeof(NodeId));
        } else {
          OpenLayer(layer_ - 1, greedy_.nearest());
        }
        return false;
      case Stage::kGather:
        GatherNeighbours(view_, scratch_);
        PrefetchNextLinks(view_, scratch_.beam, width_);
        stage_ = Stage::kScore;
        return false;
      case Stage::kScore:
        ScoreNeighbours(view_, query_, scratch_, none);
        PrefetchNextLinks(view_, scratch_.beam, width_);
        stage_ = scratch_.beam.HasNext(width_) ? Stage::kGather : Stage::kDone;
        return stage_ == Stage::kDone;
      case Stage::kDone:
        return false;
    }
    return false;
  }

  /// Returns false below the last layer.
  bool NextLayer() {
    if (layer_ == 0) return false;
    // All that was found here opens the next layer: what was visited may be met again there through other links.
    scratch_.visited.Clear();
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i) scratch_.visited.Insert(scratch_.beam.id(i));
    scratch_.beam.Reopen(width_);
    view_ = graph_->View(--layer_);
    scratch_.batch.Reserve(view_.max_degree);
    stage_ = Stage::kGather;
    return true;
  }

  bool Done() const { return stage_ == Stage::kDone; }
  NodeId node() const { return node_; }
  std::uint32_t layer() const { return layer_; }
  const Beam& beam() const { return scratch_.beam; }

 private:
  enum class Stage { kDescend, kScoreDescent, kGather, kScore, kDone };

  void OpenLayer(std::uint32_t layer, NodeId entry) {
    layer_ = layer;
    view_ = graph_->View(layer);
    scratch_.batch.Reserve(view_.max_degree);
    NullLayerCounters none;
    if (layer > level_) {
      greedy_.Open(view_, query_, entry, scratch_, none);
      stage_ = Stage::kDescend;
    } else {
      OpenBeam(view_, query_, entry, width_, scratch_, none);
      stage_ = Stage::kGather;
    }
  }

  const InsertionGraph* graph_ = nullptr;
  const std::byte* query_ = nullptr;
  NodeId node_ = 0;
  std::uint32_t level_ = 0, layer_ = 0, width_ = 0;
  LayerView view_;
  GreedyWalk greedy_;
  LayerScratch scratch_;
  Stage stage_ = Stage::kDone;
};

/// Nodes that one thread inserts at once, so that it computes for one while memory is on its way for the others.
constexpr std::size_t kNodesInFlight = 4;

/// What one thread needs while it inserts.
struct InsertScratch {
  NeighbourSearch searches[kNodesInFlight];
  RowBatch batch;
  std::vector<Candidate> candidates;
  std::vector<NodeId> selected;
  std::vector<std::vector<ReverseLink>> reverse;  ///< [layer * kShards + shard of the target]
};

class Inserter {
 public:
  Inserter(InsertionGraph& graph, const InsertOptions& options, ThreadPool& pool)
      : graph_(graph), options_(options), pool_(pool), scratch_(static_cast<std::size_t>(pool.threads())) {
    for (InsertScratch& scratch : scratch_) scratch.reverse.resize(graph.layers() * kShards);
  }

  void InsertBatch(NodeId begin, NodeId end) {
    pool_.ParallelFor(end - begin, 32, [&](std::size_t first, std::size_t last, int thread) {
      LinkNodes(begin + static_cast<NodeId>(first), begin + static_cast<NodeId>(last), scratch_[static_cast<std::size_t>(thread)]);
    });
    const std::size_t busy_layers = graph_.LevelOf(begin) + std::size_t{1};
    pool_.ParallelFor(busy_layers * kShards, 1, [&](std::size_t first, std::size_t last, int thread) {
      for (std::size_t i = first; i < last; ++i) AddReverseLinks(i, scratch_[static_cast<std::size_t>(thread)]);
    });
  }

 private:
  /// Finds and sets the links of nodes [next, last). No link leads to a node of the batch yet, so that all of it search the graph as it
  /// was.
  void LinkNodes(NodeId next, NodeId last, InsertScratch& scratch) {
    const auto open_next = [&](NeighbourSearch& search) {
      while (next < last && options_.left_out != nullptr && (*options_.left_out)[next]) ++next;
      if (next == last) return false;
      search.Open(graph_, next++, options_.ef_construction);
      return true;
    };
    std::size_t busy = 0;
    for (NeighbourSearch& search : scratch.searches) busy += open_next(search) ? 1 : 0;
    while (busy > 0) {
      for (NeighbourSearch& search : scratch.searches) {
        if (search.Done() || !search.Step()) continue;
        SelectLinks(search, scratch);
        if (!search.NextLayer() && !open_next(search)) --busy;
      }
    }
  }

  void SelectLinks(const NeighbourSearch& search, InsertScratch& scratch) {
    const NodeId node = search.node();
    const std::uint32_t layer = search.layer();
    scratch.candidates.clear();
    for (std::uint32_t i = 0; i < search.beam().size(); ++i) scratch.candidates.push_back({search.beam().key(i), search.beam().id(i)});
    const LayerView view = graph_.View(layer);
    const std::uint32_t most = layer == 0 ? options_.bottom_links : options_.upper_links;
    SelectNeighbours(scratch.candidates, std::min(most, view.max_degree), *view.kernels, view.rows, view.row_stride, &scratch.selected);
    std::copy(scratch.selected.begin(), scratch.selected.end(), graph_.Links(layer, node));
    for (NodeId target : scratch.selected) {
      scratch.reverse[layer * kShards + target % kShards].push_back(MakeReverseLink(target, node));
    }
  }

  /// Adds the reverse links of one shard of one layer, target by target, sources in order of id.
  void AddReverseLinks(std::size_t slot, InsertScratch& scratch) {
    std::vector<ReverseLink>& all = scratch_[0].reverse[slot];
    for (std::size_t thread = 1; thread < scratch_.size(); ++thread) {
      std::vector<ReverseLink>& more = scratch_[thread].reverse[slot];
      all.insert(all.end(), more.begin(), more.end());
      more.clear();
    }
    std::sort(all.begin(), all.end());
    const auto layer = static_cast<std::uint32_t>(slot / kShards);
    for (std::size_t begin = 0; begin < all.size();) {
      std::size_t end = begin;
      while (end < all.size() && all[end] >> 32 == all[begin] >> 32) ++end;
      AddLinks(layer, static_cast<NodeId>(all[begin] >> 32), {all.data() + begin, end - begin}, scratch);
      begin = end;
    }
    all.clear();
  }

  /// Appends the sources to the target's list; a list that would overflow is shrunk by the heuristic.
  void AddLinks(std::uint32_t layer, NodeId target, std::span<const ReverseLink> sources, InsertScratch& scratch) {
    NodeId* links = graph_.Links(layer, target);
    const std::uint32_t most = graph_.max_degree(layer);
    const std::uint32_t count = CountLinks(links, most);
    if (count + sources.size() <= most) {
      for (std::size_t i = 0; i < sources.size(); ++i) links[count + i] = static_cast<NodeId>(sources[i]);
      return;
    }
    const LayerView view = graph_.View(layer);
    RowBatch& batch = scratch.batch;
    batch.Reserve(count + sources.size());
    batch.size = 0;
    const auto add = [&](NodeId id) {
      PrefetchLines(view.Row(id), PrefetchBytes(*view.kernels));
      batch.Add(id, view.Row(id));
    };
    for (std::uint32_t i = 0; i < count; ++i) add(links[i]);
    for (ReverseLink source : sources) add(static_cast<NodeId>(source));
    batch.Score(*view.kernels, view.Row(target));
    scratch.candidates.clear();
    for (std::uint32_t i = 0; i < batch.size; ++i) scratch.candidates.push_back({batch.keys[i], batch.ids[i]});
    std::sort(scratch.candidates.begin(), scratch.candidates.end());
    SelectNeighbours(scratch.candidates, most, *view.kernels, view.rows, view.row_stride, &scratch.selected);
    std::fill(links, links + most, kNoNode);
    std::copy(scratch.selected.begin(), scratch.selected.end(), links);
  }

  InsertionGraph& graph_;
  const InsertOptions& options_;
  ThreadPool& pool_;
  std::vector<InsertScratch> scratch_;
};

}  // namespace

absl::StatusOr<InsertionGraph> InsertionGraph::Make(std::vector<NodeId> nodes, std::vector<std::uint32_t> max_degree, const std::byte* rows,
                                                    std::size_t row_stride, const Kernels& kernels) {
  InsertionGraph graph;
  for (std::size_t layer = 0; layer < nodes.size(); ++layer) {
    const std::size_t bytes = static_cast<std::size_t>(nodes[layer]) * max_degree[layer] * sizeof(NodeId);
    HMANN_ASSIGN_OR_RETURN(Buffer links, Buffer::Allocate(bytes));
    std::memset(links.data(), 0xff, bytes);
    graph.links_.push_back(std::move(links));
  }
  graph.nodes_ = std::move(nodes);
  graph.max_degree_ = std::move(max_degree);
  graph.rows_ = rows;
  graph.row_stride_ = row_stride;
  graph.kernels_ = &kernels;
  return graph;
}

std::uint32_t InsertionGraph::LevelOf(NodeId node) const {
  std::uint32_t level = 0;
  while (level + 1 < layers() && node < nodes_[level + 1]) ++level;
  return level;
}

LayerView InsertionGraph::View(std::uint32_t layer) const {
  return {reinterpret_cast<const NodeId*>(links_[layer].data()), nodes_[layer], max_degree_[layer], rows_, row_stride_, kernels_};
}

void InsertionGraph::DropUpperLayers() {
  links_.resize(1);
  nodes_.resize(1);
  max_degree_.resize(1);
}

NodeId InsertionGraph::Descend(const std::byte* query, std::uint32_t layer, LayerScratch& scratch) const {
  NullLayerCounters counters;
  NodeId entry = 0;
  for (std::uint32_t above = layers() - 1; above > layer; --above) entry = GreedySearch(View(above), query, entry, scratch, counters);
  return entry;
}

absl::Status InsertNodes(InsertionGraph& graph, NodeId count, const InsertOptions& options, ThreadPool& pool, Progress& progress) {
  Inserter inserter(graph, options, pool);
  progress.Advance(1);  // node 0 stands alone
  for (NodeId begin = 1; begin < count;) {
    if (options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed)) return absl::CancelledError("build cancelled");
    NodeId size = std::clamp<NodeId>(begin / kBatchShare, 1, kMaxBatch);
    size = std::min(size, count - begin);
    // A batch does not cross the border of a layer, so that all its nodes have one level.
    const std::uint32_t level = graph.LevelOf(begin);
    size = std::min(size, graph.nodes(level) - begin);
    inserter.InsertBatch(begin, begin + size);
    progress.Advance(size);
    begin += size;
  }
  return absl::OkStatus();
}

}  // namespace hmann
