#include "index/construct/graph/layer_searcher.h"

namespace hmann {

LayerSearcher::LayerSearcher(const InsertionGraph& graph, const NodeVectors& vectors)
    : graph_(graph), vectors_(vectors) {
  if (vectors.all == nullptr)
    places_.resize((std::size_t{graph.max_degree(0)} + 1) * vectors.stride + kCacheLineBytes);
}

const std::byte* LayerSearcher::Take(NodeId node, std::size_t place) {
  const auto begin = reinterpret_cast<std::uintptr_t>(places_.data());
  const std::size_t aligned = RoundUp(begin, kCacheLineBytes) - begin;
  return vectors_.Take(node, places_.data() + aligned + place * vectors_.stride);
}

const Beam& LayerSearcher::Run(const std::byte* query, NodeId entry, std::uint32_t width) {
  NullLayerCounters counters;
  const LayerView layer = graph_.View(0);
  Beam& beam = scratch_.beam;
  RowBatch& batch = scratch_.batch;
  beam.Reset(width);
  scratch_.visited.Clear();
  scratch_.visited.Insert(entry);
  batch.Reserve(layer.max_degree);
  beam.Insert(layer.kernels->one(query, Take(entry, 0), layer.kernels->dim), entry);
  while (beam.HasNext(width)) {
    const std::span<const NodeId> list = graph_.List(beam.PopNext(), list_);
    batch.size = scratch_.visited.InsertNew(list.data(), static_cast<std::uint32_t>(list.size()),
                                            layer.nodes, batch.ids.data());
    for (std::uint32_t i = 0; i < batch.size; ++i) batch.rows[i] = Take(batch.ids[i], i);
    ScoreNeighbors(layer, query, scratch_, counters);
  }
  return beam;
}

}  // namespace hmann
