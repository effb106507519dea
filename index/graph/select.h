#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/distance/distance.h"
#include "index/graph/layer_search.h"
#include "index/graph/types.h"

namespace hmann {

/// A scored candidate; ordered by (key, id).
struct Candidate {
  DistanceKey key;
  NodeId id;
  bool operator<(const Candidate& other) const {
    return key != other.key ? key < other.key : id < other.id;
  }
};

/// Chooses a node's neighbours. Going from near to far, a candidate is kept unless one
/// kept before is nearer to it than the node itself is (Malkov & Yashunin 2018, alg. 4,
/// without extending or keeping pruned candidates). While there is room, a second round
/// takes those of the others that no kept one is nearer to by more than a factor of alpha
/// (Subramanya et al. 2019, RobustPrune): links that are not needed to arrive, but make
/// it fewer steps.
///
/// Keeps its scratch; one per thread.
class NeighbourSelector {
 public:
  /// candidates: sorted, scored against the node, rows of `layer`; at most `most` ids are
  /// appended to `out` (cleared first), each round's nearest first. alpha: of distances
  /// as Kernels::ToDistance gives them (L2: squared), at least 1; 1 where they may be
  /// negative.
  void Select(std::span<const Candidate> candidates, std::uint32_t most, float alpha,
              const LayerView& layer, std::vector<NodeId>* out);

 private:
  enum class Round { kStrict, kRelaxed };
  enum class Verdict { kKeep, kLater, kNever };

  /// Goes on comparing with `kept` from *compared on.
  static Verdict Judge(const Candidate& candidate, Round round, float alpha, const LayerView& layer,
                       const std::vector<NodeId>& kept, std::uint32_t* compared);

  std::vector<std::uint32_t>
      compared_;  ///< [candidate]: how many of the kept it was compared with; or kSettled
};

/// The alpha that a metric admits: a ratio of inner products says nothing.
inline float AlphaFor(Metric metric, float alpha) {
  return metric == Metric::kInnerProduct ? 1.0f : alpha;
}

}  // namespace hmann
