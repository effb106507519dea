#include "index/construct/reverse_links.h"

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
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    while (end < all.size() && all[end] >> 32 == all[begin] >> 32) ++end;
    AddTo(layer, static_cast<NodeId>(all[begin] >> 32), {all.data() + begin, end - begin}, scratch);
    begin = end;
  }
  all.clear();
}

void ReverseLinks::AddTo(std::uint32_t layer, NodeId target, std::span<const Link> sources,
                         Scratch& scratch) {
  NodeId* const links = graph_.Links(layer, target);
  const std::uint32_t most = graph_.max_degree(layer);
  const std::uint32_t count = CountLinks(links, most);
  std::vector<NodeId>& sought = scratch.selected;
  sought.clear();
  for (const Link source : sources) {
    const auto id = static_cast<NodeId>(source);
    if (std::find(links, links + count, id) == links + count) sought.push_back(id);
  }
  if (count + sought.size() <= most) {
    std::copy(sought.begin(), sought.end(), links + count);
    return;
  }
  const LayerView view = graph_.View(layer);
  RowBatch& batch = scratch.batch;
  batch.Reserve(count + sought.size());
  batch.size = 0;
  const auto add = [&](NodeId id) {
    PrefetchLines(view.Row(id), PrefetchBytes(*view.kernels));
    batch.Add(id, view.Row(id));
  };
  for (std::uint32_t i = 0; i < count; ++i) add(links[i]);
  for (const NodeId id : sought) add(id);
  batch.Score(*view.kernels, view.Row(target));
  scratch.candidates.clear();
  for (std::uint32_t i = 0; i < batch.size; ++i)
    scratch.candidates.push_back({batch.keys[i], batch.ids[i]});
  std::sort(scratch.candidates.begin(), scratch.candidates.end());
  // The strict rule leaves room by itself; the relaxed one fills a list, and a full one
  // would be chosen anew for every link to come.
  const float alpha = layer == 0 ? alpha_ : 1;
  scratch.selector.Select(scratch.candidates, alpha > 1 ? most - most / 12 : most, alpha, view,
                          &scratch.selected);
  std::fill(links, links + most, kNoNode);
  std::copy(scratch.selected.begin(), scratch.selected.end(), links);
}

}  // namespace hmann
