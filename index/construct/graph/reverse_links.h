#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/base/thread_pool.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/graph/select.h"

namespace hmann {

/// Adds links to finished lists. Keeps its scratch; use one per thread.
class LinkMerger {
 public:
  /// Appends those of `sources`, which are distinct, that `target`'s list lacks. If a
  /// list would overflow, at most `most` links of it are chosen anew.
  void Add(InsertionGraph& graph, std::uint32_t layer, NodeId target,
           std::span<const NodeId> sources, float alpha, std::uint32_t most);
  /// The same for a list that lies elsewhere, with its room. `view` has the vectors.
  void AddTo(std::span<NodeId> links, const LayerView& view, NodeId target,
             std::span<const NodeId> sources, float alpha, std::uint32_t most);

 private:
  std::vector<NodeId> sought_, selected_;
  RowBatch batch_;
  std::vector<Candidate> candidates_;
  NeighborSelector selector_;
};

/// Adds the bottom-layer links of the first `count` nodes of `from` to the bottom layer
/// of `to`. Node i of `from` is nodes[i] there. Lists that would overflow are chosen
/// anew.
void MergeLinks(const InsertionGraph& from, NodeId count, const std::vector<NodeId>& nodes,
                float alpha, InsertionGraph& to, ThreadPool& pool);

/// Collects the reverse of chosen links: target -> source for every source -> target.
/// Threads add them, and Apply puts them into the targets' lists in an order that does
/// not depend on threads.
class ReverseLinks {
 public:
  /// alpha: for lists of the bottom layer that overflow; see NeighborSelector.
  ReverseLinks(InsertionGraph& graph, float alpha, ThreadPool& pool);

  /// `thread`: the number that the running loop of `pool` gave to the calling thread.
  void Add(std::uint32_t layer, NodeId target, NodeId source, int thread) {
    scratch_[static_cast<std::size_t>(thread)].links[layer * kShards + target % kShards].push_back(
        Pack(target, source));
  }

  /// Appends the collected links to the lists of the lowest `layers` layers, target by
  /// target, sources in order of id. A list that would overflow is chosen anew. No links
  /// may have been collected for the layers above.
  void Apply(std::uint32_t layers);

 private:
  static constexpr std::size_t kShards = 64;

  /// Ordered by (target, source).
  using Link = std::uint64_t;
  static Link Pack(NodeId target, NodeId source) {
    return (static_cast<Link>(target) << 32) | source;
  }

  struct Scratch {
    std::vector<std::vector<Link>> links;  ///< [layer * kShards + shard of the target]
    std::vector<NodeId> sources;
    LinkMerger merger;
  };

  void ApplyShard(std::size_t slot, Scratch& scratch);

  InsertionGraph& graph_;
  float alpha_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;  ///< [thread]
};

}  // namespace hmann
