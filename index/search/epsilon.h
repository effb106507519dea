#pragma once

#include <cstdint>
#include <optional>

#include "hmann/distance.h"
#include "index/graph/beam.h"

namespace hmann {

/// The dial `epsilon` as a walk uses it. What is beyond it need not even be kept: the kth
/// best only comes nearer.
struct EpsilonLimit {
  std::optional<float> epsilon = {};  ///< absent: no end
  std::uint32_t k = 0;

  /// Candidates of a larger key are farther than (1 + epsilon) x the kth of `found`; none
  /// is while it has fewer.
  DistanceKey Limit(const Kernels& kernels, const Beam& found) const {
    if (!epsilon.has_value() || found.size() < k) return ~DistanceKey{0};
    return kernels.ToKey((1 + *epsilon) * kernels.ToDistance(found.key(k - 1)));
  }
};

}  // namespace hmann
