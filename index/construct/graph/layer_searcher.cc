#include "index/construct/graph/layer_searcher.h"

namespace hmann {

LayerSearcher::LayerSearcher(const LayerView& layer, const NodeVectors& vectors)
    : layer_(layer), vectors_(vectors) {
  layer_.rows = vectors.all;
  layer_.row_stride = vectors.stride;
  if (vectors.all == nullptr)
    places_.resize((std::size_t{layer.max_degree} + 1) * vectors.stride + kCacheLineBytes);
}

const std::byte* LayerSearcher::Take(NodeId node, std::size_t place) {
  if (vectors_.all != nullptr) return layer_.Row(node);
  const auto begin = reinterpret_cast<std::uintptr_t>(places_.data());
  const std::size_t aligned = RoundUp(begin, kCacheLineBytes) - begin;
  return vectors_.Take(node, places_.data() + aligned + place * vectors_.stride);
}

const Beam& LayerSearcher::Run(const std::byte* query, NodeId entry, std::uint32_t width) {
  NullLayerCounters counters;
  Beam& beam = scratch_.beam;
  RowBatch& batch = scratch_.batch;
  if (vectors_.all != nullptr) {
    OpenBeam(layer_, query, entry, width, scratch_, counters);
    SearchLayer(layer_, query, width, scratch_, counters);
    return beam;
  }
  beam.Reset(width);
  scratch_.visited.Clear();
  scratch_.visited.Insert(entry);
  batch.Reserve(layer_.max_degree);
  beam.Insert(layer_.kernels->one(query, Take(entry, 0), layer_.kernels->dim), entry);
  while (beam.HasNext(width)) {
    batch.size = scratch_.visited.InsertNew(layer_.Links(beam.PopNext()), layer_.max_degree,
                                            layer_.nodes, batch.ids.data());
    for (std::uint32_t i = 0; i < batch.size; ++i) batch.rows[i] = Take(batch.ids[i], i);
    ScoreNeighbors(layer_, query, scratch_, counters);
  }
  return beam;
}

}  // namespace hmann
