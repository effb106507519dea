#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hmann/distance.h"
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

/// Chooses a node's neighbors. Going from near to far, it keeps a candidate unless an
/// already kept one is nearer to it than the node itself is (Malkov & Yashunin 2018, alg.
/// 4, without extending or keeping pruned candidates). While there is room, a second
/// round takes the other candidates, unless a kept one is nearer to them by more than a
/// factor of alpha (Subramanya et al. 2019, RobustPrune). A search can do without these
/// links, but they save it steps.
///
/// Keeps its scratch; one per thread.
class NeighborSelector {
 public:
  /// candidates: sorted, scored against the node, rows of `layer`. At most `most` ids are
  /// appended to `out` (cleared first), each round's nearest first. alpha: at least 1, a
  /// factor on distances as Kernels::ToDistance gives them (L2: squared); 1 where these
  /// may be negative.
  void Select(std::span<const Candidate> candidates, std::uint32_t most, float alpha,
              const LayerView& layer, std::vector<NodeId>* out);
  /// The same for rows that are in no layer; rows[i]: of candidates[i].
  void Select(std::span<const Candidate> candidates, std::span<const std::byte* const> rows,
              std::uint32_t most, float alpha, const Kernels& kernels, std::vector<NodeId>* out);

 private:
  static constexpr std::size_t kAtOnce = 8;  ///< most candidates fall to the first few

  /// A candidate to which a kept one is nearer, by a factor of less than alpha.
  /// `compared` is the number of kept candidates it was compared with.
  struct Near {
    std::uint32_t candidate, compared;
    bool operator<(const Near& other) const { return candidate < other.candidate; }
  };

  static bool Beyond(DistanceKey to_kept, DistanceKey to_node, float alpha,
                     const Kernels& kernels) {
    return alpha * kernels.ToDistance(to_kept) < kernels.ToDistance(to_node);
  }
  /// Removes from free_ the candidates to which the last kept one, the first of free_, is
  /// nearer than the node.
  void DropShadowed(std::span<const Candidate> candidates, float alpha, const Kernels& kernels);
  /// Whether a kept candidate from number `compared` on is nearer by more than alpha.
  bool IsBeyond(const std::byte* row, DistanceKey to_node, std::uint32_t compared, float alpha,
                const Kernels& kernels);

  std::vector<std::uint32_t> free_;     ///< not shadowed by a kept one, ascending
  std::vector<const std::byte*> all_;   ///< rows of all candidates of a layer
  std::vector<const std::byte*> rows_;  ///< of the free
  std::vector<Near> near_;
  std::vector<const std::byte*> kept_;
  std::vector<DistanceKey> keys_;
};

/// The alpha that a metric allows: a ratio of inner products means nothing. Links of
/// floats are not built with it (index/construct/graph/lift.h).
inline float AlphaFor(DType dtype, Metric metric, float alpha) {
  return metric == Metric::kInnerProduct && !IsFloat(dtype) ? 1.0f : alpha;
}

}  // namespace hmann
