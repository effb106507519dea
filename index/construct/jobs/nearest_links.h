#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "index/graph/select.h"
#include "index/graph/visited.h"

namespace hmann {

/// Chooses the links of one node after the other. Keeps its scratch; use one per thread.
class NodeLinker {
 public:
  // Measured on one million SIFT vectors (doc/paper.md, 12.h); a guess for other data.
  static constexpr std::uint32_t kRequested = 12;  ///< nearest neighbors whose lists are read
  static constexpr std::uint32_t kAnswered = 12;   ///< nearest entries read of each list

  /// The entries read of lists that hold `length`.
  static constexpr std::uint32_t AnsweredOf(std::uint32_t length) {
    return std::min(kAnswered, length);
  }

  /// Returns the nearest kAnswered of a node's list; valid until the next call.
  using Answers = std::function<std::span<const NodeId>(NodeId node)>;

  /// `length`: of a full list.
  NodeLinker(std::uint32_t length, float alpha);

  /// Chooses the links of `node` out of `candidates`, nearest first, and of the lists of
  /// these. Changes `candidates`. Valid until the next call.
  std::span<const NodeId> Choose(NodeId node, std::vector<Candidate>& candidates,
                                 const LayerView& view, const Answers& answers);

 private:
  /// Neighbors' neighbors that are nearer than the farthest candidate replace it.
  void AskNeighbors(NodeId node, std::vector<Candidate>& candidates, const LayerView& view,
                    const Answers& answers);

  std::uint32_t length_;
  float alpha_;
  std::vector<NodeId> selected_;
  VisitedSet met_;
  RowBatch batch_;
  NeighborSelector selector_;
};

}  // namespace hmann
