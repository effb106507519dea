#include "index/construct/graph/reverse_links.h"

#include <algorithm>

namespace hmann {

ReverseLinks::ReverseLinks(InsertionGraph& graph, float alpha, ThreadPool& pool)
    : graph_(graph),
      alpha_(alpha),
      pool_(pool),
      scratch_(static_cast<std::size_t>(pool.threads())) {
  for (Scratch& scratch : scratch_) scratch.links.resize(graph.layers() * kShards);
}

void ReverseLinks::Apply(std::uint32_t layers) {
  pool_.ParallelFor(layers * kShards, 1, [&](std::size_t first, std::size_t last, int thread) {
    for (std::size_t i = first; i < last; ++i)
      ApplyShard(i, scratch_[static_cast<std::size_t>(thread)]);
  });
}

void ReverseLinks::ApplyShard(std::size_t slot, Scratch& scratch) {
  std::vector<Link>& all = scratch_[0].links[slot];
  for (std::size_t thread = 1; thread < scratch_.size(); ++thread) {
    std::vector<Link>& more = scratch_[thread].links[slot];
    all.insert(all.end(), more.begin(), more.end());
    more.clear();
  }
  std::sort(all.begin(), all.end());
  const auto layer = static_cast<std::uint32_t>(slot / kShards);
  // The strict rule leaves room by itself. The relaxed rule fills a list, and a full list
  // would be chosen anew for every new link.
  const float alpha = layer == 0 ? alpha_ : 1;
  const std::uint32_t most = graph_.max_degree(layer), chosen = alpha > 1 ? most - most / 12 : most;
  for (std::size_t begin = 0; begin < all.size();) {
    const auto target = static_cast<NodeId>(all[begin] >> 32);
    scratch.sources.clear();
    for (; begin < all.size() && all[begin] >> 32 == target; ++begin)
      scratch.sources.push_back(static_cast<NodeId>(all[begin]));
    scratch.merger.Add(graph_, layer, target, scratch.sources, alpha, chosen);
  }
  all.clear();
}

void LinkMerger::Add(InsertionGraph& graph, std::uint32_t layer, NodeId target,
                     std::span<const NodeId> sources, float alpha, std::uint32_t most) {
  AddTo({graph.Links(layer, target), graph.max_degree(layer)}, graph.View(layer), target, sources,
        alpha, most);
}

void LinkMerger::AddTo(std::span<NodeId> list, const LayerView& view, NodeId target,
                       std::span<const NodeId> sources, float alpha, std::uint32_t most) {
  NodeId* const links = list.data();
  const auto room = static_cast<std::uint32_t>(list.size());
  const std::uint32_t count = CountLinks(links, room);
  sought_.clear();
  for (const NodeId source : sources) {
    if (std::find(links, links + count, source) == links + count) sought_.push_back(source);
  }
  if (count + sought_.size() <= room) {
    std::copy(sought_.begin(), sought_.end(), links + count);
    return;
  }
  batch_.Reserve(count + sought_.size());
  batch_.size = 0;
  const auto add = [&](NodeId id) {
    PrefetchLines(view.Row(id), PrefetchBytes(*view.kernels));
    batch_.Add(id, view.Row(id));
  };
  std::for_each(links, links + count, add);
  std::for_each(sought_.begin(), sought_.end(), add);
  batch_.Score(*view.kernels, view.Row(target));
  candidates_.clear();
  for (std::uint32_t i = 0; i < batch_.size; ++i)
    candidates_.push_back({batch_.keys[i], batch_.ids[i]});
  std::sort(candidates_.begin(), candidates_.end());
  selector_.Select(candidates_, most, alpha, view, &selected_);
  std::fill(links, links + room, kNoNode);
  std::copy(selected_.begin(), selected_.end(), links);
}

void MergeLinks(const InsertionGraph& from, NodeId count, const std::vector<NodeId>& nodes,
                float alpha, InsertionGraph& to, ThreadPool& pool) {
  std::vector<LinkMerger> mergers(static_cast<std::size_t>(pool.threads()));
  pool.ParallelFor(count, 256, [&](std::size_t begin, std::size_t end, int thread) {
    std::vector<NodeId> links, list;
    for (auto node = static_cast<NodeId>(begin); node < end; ++node) {
      links.clear();
      for (const NodeId link : from.List(node, list)) links.push_back(nodes[link]);
      mergers[static_cast<std::size_t>(thread)].Add(to, 0, nodes[node], links, alpha,
                                                    to.max_degree(0));
    }
  });
}

}  // namespace hmann
