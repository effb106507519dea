#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/base/prefetch.h"
#include "index/distance/distance.h"
#include "index/graph/beam.h"
#include "index/graph/types.h"
#include "index/graph/visited.h"

namespace hmann {

/// One layer whose links and vectors lie in plain arrays of fast memory. Not owned.
struct LayerView {
  const NodeId* links = nullptr;  ///< nodes x max_degree, unused = kNoNode
  NodeId nodes = 0;               ///< a link that is not below it ends its list, in a corrupt file too
  std::uint32_t max_degree = 0;
  const std::byte* rows = nullptr;  ///< stored vectors (see Kernels), row i at rows + i * row_stride
  std::size_t row_stride = 0;
  const Kernels* kernels = nullptr;

  const NodeId* Links(NodeId node) const { return links + static_cast<std::size_t>(node) * max_degree; }
  const std::byte* Row(NodeId node) const { return rows + node * row_stride; }
};

/// What a search counts, and who watches it; the null version costs nothing.
struct NullLayerCounters {
  void Distances(std::size_t) {}
  void Expanded() {}
  void Stepped(const Beam&) {}  ///< the beam after the neighbours of an expanded candidate went in
};

/// A batch of rows on its way through the kernel.
struct RowBatch {
  std::vector<NodeId> ids;
  std::vector<const std::byte*> rows;
  std::vector<DistanceKey> keys;
  std::uint32_t size = 0;

  void Reserve(std::size_t n) {
    if (ids.size() >= n) return;
    ids.resize(n);
    rows.resize(n);
    keys.resize(n);
  }
  void Add(NodeId id, const std::byte* row) {
    ids[size] = id;
    rows[size++] = row;
  }
  void Score(const Kernels& kernels, const std::byte* query) { kernels.many(query, rows.data(), size, kernels.dim, keys.data()); }
};

/// Scratch of a layer search; one per thread, kept between searches.
struct LayerScratch {
  Beam beam;
  VisitedSet visited;
  RowBatch batch;
};

/// Greedy descent (ef = 1): moves to the nearest neighbour until none is nearer. Algorithm 2's way through the layers above L1.
/// Returns the local minimum reached from `entry`; ties go to the smaller id.
template <typename Counters>
NodeId GreedySearch(const LayerView& layer, const std::byte* query, NodeId entry, LayerScratch& scratch, Counters& counters) {
  RowBatch& batch = scratch.batch;
  batch.Reserve(layer.max_degree);
  DistanceKey best = layer.kernels->one(query, layer.Row(entry), layer.kernels->dim);
  counters.Distances(1);
  for (;;) {
    const NodeId* links = layer.Links(entry);
    batch.size = 0;
    for (std::uint32_t i = 0; i < layer.max_degree && links[i] < layer.nodes; ++i) {
      const std::byte* row = layer.Row(links[i]);
      PrefetchLines(row, PrefetchBytes(*layer.kernels));
      batch.Add(links[i], row);
    }
    batch.Score(*layer.kernels, query);
    counters.Distances(batch.size);
    counters.Expanded();
    const NodeId from = entry;
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      if (batch.keys[i] < best || (batch.keys[i] == best && entry != from && batch.ids[i] < entry)) {
        best = batch.keys[i];
        entry = batch.ids[i];
      }
    }
    if (entry == from) return entry;
  }
}

/// Best-first search of one layer (Malkov & Yashunin 2018, alg. 2) from the candidates that scratch.beam already holds unexpanded
/// (they must be in scratch.visited). Expands while one of the nearest `window` is unexpanded, at most `most_steps` of them; the beam may
/// be wider than the window, so that what is met on the way is kept for another layer. Returns whether the search is finished.
template <typename Counters>
bool SearchLayer(const LayerView& layer, const std::byte* query, std::uint32_t window, LayerScratch& scratch, Counters& counters,
                 std::uint64_t most_steps = ~std::uint64_t{0}) {
  Beam& beam = scratch.beam;
  RowBatch& batch = scratch.batch;
  batch.Reserve(layer.max_degree);
  const std::size_t row_bytes = PrefetchBytes(*layer.kernels);
  for (; beam.HasNext(window); --most_steps) {
    if (most_steps == 0) return false;
    const NodeId* links = layer.Links(beam.PopNext());
    batch.size = 0;
    for (std::uint32_t i = 0; i < layer.max_degree && links[i] < layer.nodes; ++i) {
      if (!scratch.visited.Insert(links[i])) continue;
      const std::byte* row = layer.Row(links[i]);
      PrefetchLines(row, row_bytes);
      batch.Add(links[i], row);
    }
    // The runner-up is the next to be expanded unless a neighbour beats it: its links are on their way meanwhile.
    if (beam.HasNext(window)) PrefetchLines(layer.Links(beam.PeekNext()), layer.max_degree * sizeof(NodeId));
    batch.Score(*layer.kernels, query);
    counters.Distances(batch.size);
    counters.Expanded();
    for (std::uint32_t i = 0; i < batch.size; ++i) beam.Insert(batch.keys[i], batch.ids[i]);
    counters.Stepped(beam);
  }
  return true;
}

/// Opens scratch with one scored candidate.
template <typename Counters>
void OpenBeam(const LayerView& layer, const std::byte* query, NodeId entry, std::uint32_t width, LayerScratch& scratch,
              Counters& counters) {
  scratch.beam.Reset(width);
  scratch.visited.Clear();
  scratch.visited.Insert(entry);
  scratch.beam.Insert(layer.kernels->one(query, layer.Row(entry), layer.kernels->dim), entry);
  counters.Distances(1);
}

}  // namespace hmann
