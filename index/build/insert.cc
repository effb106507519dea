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

/// What one thread needs while it inserts.
struct InsertScratch {
  LayerScratch search;
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
    pool_.ParallelFor(end - begin, 8, [&](std::size_t first, std::size_t last, int thread) {
      for (std::size_t i = first; i < last; ++i) {
        const NodeId node = begin + static_cast<NodeId>(i);
        if (options_.left_out != nullptr && (*options_.left_out)[node]) continue;
        LinkNode(node, scratch_[static_cast<std::size_t>(thread)]);
      }
    });
    const std::size_t busy_layers = graph_.LevelOf(begin) + std::size_t{1};
    pool_.ParallelFor(busy_layers * kShards, 1, [&](std::size_t first, std::size_t last, int thread) {
      for (std::size_t i = first; i < last; ++i) AddReverseLinks(i, scratch_[static_cast<std::size_t>(thread)]);
    });
  }

 private:
  /// Finds and sets the links of `node`. No link leads to a node of the batch yet, so the others of the batch search the graph as it was.
  void LinkNode(NodeId node, InsertScratch& scratch) {
    const LayerView bottom = graph_.View(0);
    const std::byte* query = bottom.Row(node);
    const std::uint32_t level = graph_.LevelOf(node);
    NullLayerCounters counters;
    LayerScratch& search = scratch.search;
    OpenBeam(bottom, query, graph_.Descend(query, level, search), options_.ef_construction, search, counters);
    for (std::uint32_t layer = level + 1; layer-- > 0;) {
      SearchLayer(graph_.View(layer), query, options_.ef_construction, search, counters);
      scratch.candidates.clear();
      for (std::uint32_t i = 0; i < search.beam.size(); ++i) scratch.candidates.push_back({search.beam.key(i), search.beam.id(i)});
      const std::uint32_t most = layer == 0 ? options_.bottom_links : options_.upper_links;
      SelectNeighbours(scratch.candidates, std::min(most, graph_.max_degree(layer)), *bottom.kernels, bottom.rows, bottom.row_stride,
                       &scratch.selected);
      std::copy(scratch.selected.begin(), scratch.selected.end(), graph_.Links(layer, node));
      for (NodeId target : scratch.selected) {
        scratch.reverse[layer * kShards + target % kShards].push_back(MakeReverseLink(target, node));
      }
      // All that was found here opens the next layer: what was visited may be met again there through other links.
      search.visited.Clear();
      for (std::uint32_t i = 0; i < search.beam.size(); ++i) search.visited.Insert(search.beam.id(i));
      search.beam.Reopen(options_.ef_construction);
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
    RowBatch& batch = scratch.search.batch;
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
