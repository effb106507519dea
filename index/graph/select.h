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
  static constexpr std::size_t kAtOnce = 8;  ///< most candidates fall to the first few

  /// A candidate that a kept one is nearer to, by less than alpha, and how many of the
  /// kept it was compared with.
  struct Near {
    std::uint32_t candidate, compared;
    bool operator<(const Near& other) const { return candidate < other.candidate; }
  };

  static bool Beyond(DistanceKey to_kept, DistanceKey to_node, float alpha,
                     const Kernels& kernels) {
    return alpha * kernels.ToDistance(to_kept) < kernels.ToDistance(to_node);
  }
  /// Takes from the free what the last kept one, which is the first of them, is nearer
  /// to.
  void DropShadowed(std::span<const Candidate> candidates, float alpha, const Kernels& kernels);
  /// Whether one of the kept from number `compared` on is nearer by more than alpha.
  bool IsBeyond(const std::byte* row, DistanceKey to_node, std::uint32_t compared, float alpha,
                const Kernels& kernels);

  std::vector<std::uint32_t> free_;     ///< candidates that no kept one is nearer to, ascending
  std::vector<const std::byte*> rows_;  ///< of the free
  std::vector<Near> near_;
  std::vector<const std::byte*> kept_;
  std::vector<DistanceKey> keys_;
};

/// The alpha that a metric admits: a ratio of inner products says nothing. Links of
/// floats are not made by these (index/construct/graph/lift.h).
inline float AlphaFor(DType dtype, Metric metric, float alpha) {
  return metric == Metric::kInnerProduct && !IsFloat(dtype) ? 1.0f : alpha;
}

}  // namespace hmann
