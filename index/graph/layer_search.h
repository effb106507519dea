#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hmann/distance.h"
#include "index/base/prefetch.h"
#include "index/graph/beam.h"
#include "index/graph/types.h"
#include "index/graph/visited.h"

namespace hmann {

/// One layer whose links and vectors lie in plain arrays of fast memory. Not owned.
struct LayerView {
  const NodeId* links = nullptr;  ///< nodes x max_degree, unused = kNoNode
  NodeId nodes = 0;  ///< a link that is not below it ends its list, in a corrupt file too
  std::uint32_t max_degree = 0;
  const std::byte* rows =
      nullptr;  ///< stored vectors (see Kernels), row i at rows + i * row_stride
  std::size_t row_stride = 0;
  const Kernels* kernels = nullptr;

  const NodeId* Links(NodeId node) const {
    return links + static_cast<std::size_t>(node) * max_degree;
  }
  const std::byte* Row(NodeId node) const { return rows + node * row_stride; }
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
  /// Keeps the ids and keys of those that were scored at most `limit`; without a branch:
  /// few stay, and which is anyone's guess.
  void Keep(DistanceKey limit) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      const DistanceKey key = keys[i];
      keys[kept] = key;
      ids[kept] = ids[i];
      kept += key <= limit ? 1 : 0;
    }
    size = kept;
  }
  void Score(const Kernels& kernels, const std::byte* query) {
    kernels.many(query, rows.data(), size, kernels.dim, keys.data());
  }
};

/// What a search counts, and who watches it; the null version costs nothing.
struct NullLayerCounters {
  void Distances(std::size_t) {}
  void Expanded() {}
  void Scored(const RowBatch&) {}  ///< the neighbours of an expanded candidate
  void Stepped(const Beam&) {}  ///< the beam after the neighbours of an expanded candidate went in
};

/// Scratch of a layer search; one per thread, kept between searches.
struct LayerScratch {
  Beam beam;
  VisitedSet visited;
  RowBatch batch;
};

/// A step of a layer search comes in two halves, so that other work can be done while
/// memory is waited for: *gather* leaves the neighbours of a node in scratch.batch, their
/// rows on the way to the cache; *score* computes their distances.

/// Greedy descent (ef = 1): moves to the nearest neighbour until none is nearer.
/// Algorithm 2's way through the layers above L1.
class GreedyWalk {
 public:
  template <typename Counters>
  void Open(const LayerView& layer, const std::byte* query, NodeId entry, LayerScratch& scratch,
            Counters& counters) {
    scratch.batch.Reserve(layer.max_degree);
    nearest_ = entry;
    key_ = layer.kernels->one(query, layer.Row(entry), layer.kernels->dim);
    counters.Distances(1);
  }

  void Gather(const LayerView& layer, LayerScratch& scratch) const {
    const NodeId* links = layer.Links(nearest_);
    RowBatch& batch = scratch.batch;
    batch.size = 0;
    for (std::uint32_t i = 0; i < layer.max_degree && links[i] < layer.nodes; ++i) {
      const std::byte* row = layer.Row(links[i]);
      PrefetchLines(row, PrefetchBytes(*layer.kernels));
      batch.Add(links[i], row);
    }
  }

  /// Returns whether a neighbour was nearer; ties go to the smaller id.
  template <typename Counters>
  bool Score(const LayerView& layer, const std::byte* query, LayerScratch& scratch,
             Counters& counters) {
    RowBatch& batch = scratch.batch;
    batch.Score(*layer.kernels, query);
    counters.Distances(batch.size);
    counters.Expanded();
    const NodeId from = nearest_;
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      if (batch.keys[i] < key_ ||
          (batch.keys[i] == key_ && nearest_ != from && batch.ids[i] < nearest_)) {
        key_ = batch.keys[i];
        nearest_ = batch.ids[i];
      }
    }
    return nearest_ != from;
  }

  NodeId nearest() const { return nearest_; }

 private:
  NodeId nearest_ = 0;
  DistanceKey key_ = 0;
};

/// A whole greedy descent of one layer: returns the local minimum reached from `entry`.
template <typename Counters>
NodeId GreedySearch(const LayerView& layer, const std::byte* query, NodeId entry,
                    LayerScratch& scratch, Counters& counters) {
  GreedyWalk walk;
  walk.Open(layer, query, entry, scratch, counters);
  do walk.Gather(layer, scratch);
  while (walk.Score(layer, query, scratch, counters));
  return walk.nearest();
}

/// First half of a step of SearchLayer: expands the nearest unexpanded candidate.
/// scratch.batch has room for layer.max_degree.
inline void GatherNeighbours(const LayerView& layer, LayerScratch& scratch) {
  RowBatch& batch = scratch.batch;
  const std::size_t row_bytes = PrefetchBytes(*layer.kernels);
  batch.size = scratch.visited.InsertNew(layer.Links(scratch.beam.PopNext()), layer.max_degree,
                                         layer.nodes, batch.ids.data());
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    batch.rows[i] = layer.Row(batch.ids[i]);
    PrefetchLines(batch.rows[i], row_bytes);
  }
}

/// Second half: what was gathered goes into the beam, and nothing of a key above `limit`
/// is left there.
template <typename Counters>
void ScoreNeighbours(const LayerView& layer, const std::byte* query, LayerScratch& scratch,
                     Counters& counters, DistanceKey limit = ~DistanceKey{0}) {
  RowBatch& batch = scratch.batch;
  batch.Score(*layer.kernels, query);
  counters.Distances(batch.size);
  counters.Expanded();
  counters.Scored(batch);
  scratch.beam.DropBeyond(limit);
  batch.Keep(std::min(limit, scratch.beam.bound()));
  scratch.beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
  counters.Stepped(scratch.beam);
}

/// The links of the candidate that is nearest among the unexpanded, if it is one of
/// `window`.
inline void PrefetchNextLinks(const LayerView& layer, const Beam& beam, std::uint32_t window) {
  if (beam.HasNext(window))
    PrefetchLines(layer.Links(beam.PeekNext()), layer.max_degree * sizeof(NodeId));
}

/// Best-first search of one layer (Malkov & Yashunin 2018, alg. 2) from the candidates
/// that scratch.beam already holds unexpanded (they must be in scratch.visited). Expands
/// while one of the nearest `window` is unexpanded, at most `most_steps` of them; the
/// beam may be wider than the window, so that what is met on the way is kept for another
/// layer. Returns whether the search is finished.
template <typename Counters>
bool SearchLayer(const LayerView& layer, const std::byte* query, std::uint32_t window,
                 LayerScratch& scratch, Counters& counters,
                 std::uint64_t most_steps = ~std::uint64_t{0}) {
  scratch.batch.Reserve(layer.max_degree);
  for (; scratch.beam.HasNext(window); --most_steps) {
    if (most_steps == 0) return false;
    GatherNeighbours(layer, scratch);
    // The runner-up is the next to be expanded unless a neighbour beats it: its links are
    // on their way meanwhile.
    PrefetchNextLinks(layer, scratch.beam, window);
    ScoreNeighbours(layer, query, scratch, counters);
  }
  return true;
}

/// Opens scratch with one scored candidate.
template <typename Counters>
void OpenBeam(const LayerView& layer, const std::byte* query, NodeId entry, std::uint32_t width,
              LayerScratch& scratch, Counters& counters) {
  scratch.beam.Reset(width);
  scratch.visited.Clear();
  scratch.visited.Insert(entry);
  scratch.beam.Insert(layer.kernels->one(query, layer.Row(entry), layer.kernels->dim), entry);
  counters.Distances(1);
}

}  // namespace hmann
