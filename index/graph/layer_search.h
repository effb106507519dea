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
  NodeId nodes = 0;               ///< a link not below it ends its list, also in a corrupt file
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

/// A batch of rows to be scored by the kernel.
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
  /// Keeps the ids and keys that scored at most `limit`. It has no branch, because few
  /// stay and the branch predictor cannot guess which.
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

/// Counts and observes a search; this null version costs nothing.
struct NullLayerCounters {
  void Distances(std::size_t) {}
  void Expanded() {}
  void Scored(const RowBatch&) {}  ///< the neighbors of an expanded candidate
  void Stepped(const Beam&) {}     ///< the beam with the neighbors of an expanded candidate
};

/// Scratch of a layer search; one per thread, kept between searches.
struct LayerScratch {
  Beam beam;
  VisitedSet visited;
  RowBatch batch;
};

/// A step of a layer search has two halves, so that other work can be done while it waits
/// for memory. *Gather* leaves the neighbors of a node in scratch.batch and prefetches
/// their rows. *Score* computes their distances.

/// Greedy descent (ef = 1): moves to the nearest neighbor until none is nearer. Algorithm
/// 2 uses it for the layers above L1.
class GreedyTraversal {
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

  /// Returns whether a neighbor was nearer; ties go to the smaller id.
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

/// Runs a whole greedy descent of one layer; returns the local minimum reached from
/// `entry`.
template <typename Counters>
NodeId GreedySearch(const LayerView& layer, const std::byte* query, NodeId entry,
                    LayerScratch& scratch, Counters& counters) {
  GreedyTraversal traversal;
  traversal.Open(layer, query, entry, scratch, counters);
  do traversal.Gather(layer, scratch);
  while (traversal.Score(layer, query, scratch, counters));
  return traversal.nearest();
}

/// First half of a step of SearchLayer: expands the nearest unexpanded candidate.
/// scratch.batch must have room for layer.max_degree.
inline void GatherNeighbors(const LayerView& layer, LayerScratch& scratch) {
  RowBatch& batch = scratch.batch;
  const std::size_t row_bytes = PrefetchBytes(*layer.kernels);
  batch.size = scratch.visited.InsertNew(layer.Links(scratch.beam.PopNext()), layer.max_degree,
                                         layer.nodes, batch.ids.data());
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    batch.rows[i] = layer.Row(batch.ids[i]);
    PrefetchLines(batch.rows[i], row_bytes);
  }
}

/// Second half: inserts what was gathered into the beam and drops every candidate with a
/// key above `limit`.
template <typename Counters>
void ScoreNeighbors(const LayerView& layer, const std::byte* query, LayerScratch& scratch,
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

/// Prefetches the links of the nearest unexpanded candidate, if it is among the first
/// `window`.
inline void PrefetchNextLinks(const LayerView& layer, const Beam& beam, std::uint32_t window) {
  if (beam.HasNext(window))
    PrefetchLines(layer.Links(beam.PeekNext()), layer.max_degree * sizeof(NodeId));
}

/// Graph search of one layer (Malkov & Yashunin 2018, alg. 2). It starts from the
/// candidates that scratch.beam already holds unexpanded; they must be in
/// scratch.visited. It expands while one of the nearest `window` is unexpanded, at most
/// `most_steps` of them. The beam may be wider than the window, to keep the candidates
/// met for another layer. Returns whether the search is finished.
template <typename Counters>
bool SearchLayer(const LayerView& layer, const std::byte* query, std::uint32_t window,
                 LayerScratch& scratch, Counters& counters,
                 std::uint64_t most_steps = ~std::uint64_t{0}) {
  scratch.batch.Reserve(layer.max_degree);
  for (; scratch.beam.HasNext(window); --most_steps) {
    if (most_steps == 0) return false;
    GatherNeighbors(layer, scratch);
    // The runner-up is expanded next unless a neighbor beats it. Its links arrive
    // meanwhile.
    PrefetchNextLinks(layer, scratch.beam, window);
    ScoreNeighbors(layer, query, scratch, counters);
  }
  return true;
}

/// Starts a search in scratch with one scored candidate.
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
