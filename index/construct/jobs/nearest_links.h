#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "index/graph/select.h"
#include "index/graph/visited.h"

namespace hmann {

/// Chooses the links of one node after the other; keeps its scratch, one per thread.
class NodeLinker {
 public:
  // Measured on one million SIFT vectors (doc/paper.md, 12.h): elsewhere a guess.
  static constexpr std::uint32_t kAsked = 12;     ///< neighbours whose lists are read, the nearest
  static constexpr std::uint32_t kAnswered = 12;  ///< of each list, the nearest

  /// The same of lists that hold so many.
  static constexpr std::uint32_t AnsweredOf(std::uint32_t length) {
    return std::min(kAnswered, length);
  }

  /// The nearest kAnswered of a node's list; valid until the next call.
  using Answers = std::function<std::span<const NodeId>(NodeId node)>;

  /// `length`: of lists that are full.
  NodeLinker(std::uint32_t length, float alpha);

  /// Links of `node` out of `candidates`, nearest first, which are changed, and of what
  /// these answer. Valid until the next call.
  std::span<const NodeId> Choose(NodeId node, std::vector<Candidate>& candidates,
                                 const LayerView& view, const Answers& answers);

 private:
  /// Neighbours' neighbours that are nearer than the farthest candidate take its place.
  void AskNeighbours(NodeId node, std::vector<Candidate>& candidates, const LayerView& view,
                     const Answers& answers);

  std::uint32_t length_;
  float alpha_;
  std::vector<NodeId> selected_;
  VisitedSet met_;
  RowBatch batch_;
  NeighbourSelector selector_;
};

}  // namespace hmann
