#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "index/collection/tail.h"
#include "index/graph/layer_search.h"
#include "index/graph/select.h"
#include "index/search/epsilon.h"

namespace hmann {

/// A graph over rows of the delta that grows while it is searched (one layer of HNSW;
/// Malkov & Yashunin 2018). Its links are in the chunks of the tail. Nothing leads from
/// it to rows of another graph, so that a merge can drop the rows of one.
///
/// Thread safety: one thread inserts, any number search.
class DeltaGraph {
 public:
  /// Memory of a thread that inserts or searches.
  struct Scratch {
    LayerScratch layer;
    std::vector<NodeId> links;
    NeighborSelector selector;
    std::vector<Candidate> candidates, shorter;
    std::vector<const std::byte*> rows;
    std::vector<NodeId> chosen;
  };

  explicit DeltaGraph(std::uint64_t first) : first_(first) {}

  /// Rows [first, end) are in it.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return first_ + nodes_.load(std::memory_order_acquire); }
  /// Rows from this one on are for another graph.
  std::uint64_t limit() const { return limit_; }
  void Close(std::uint64_t limit) { limit_ = limit; }

  /// Inserts row end(), which the tail has. A row that is dead gets no links. `width`:
  /// ef_construction.
  void Insert(const Tail& tail, const Kernels& kernels, std::uint32_t width, float alpha,
              Scratch& scratch);
  /// Leaves in scratch.layer.beam the nearest `width` rows of the tail that it finds, row
  /// - first() each, dead ones included. `query`: a stored vector. `end`: the search ends
  /// at the first candidate beyond it, unless that is one of the nearest few. Returns the
  /// number of distances.
  std::uint64_t Search(const Tail& tail, const Kernels& kernels, const std::byte* query,
                       std::uint32_t width, const EpsilonLimit& end, Scratch& scratch) const;

 private:
  void ReadLinks(const Tail& tail, NodeId node, NodeId nodes, std::vector<NodeId>* links) const;
  void WriteLinks(const Tail& tail, NodeId node, std::span<const NodeId> links);
  void LinkBack(const Tail& tail, const Kernels& kernels, NodeId node, NodeId to, DistanceKey key,
                float alpha, Scratch& scratch);

  const std::uint64_t first_;
  std::atomic<NodeId> nodes_ = 0;
  std::atomic<std::uint64_t> limit_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace hmann
