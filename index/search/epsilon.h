#pragma once

#include <cstdint>
#include <optional>

#include "hmann/distance.h"
#include "index/graph/beam.h"

namespace hmann {

/// The parameter `epsilon` as a traversal uses it. Candidates beyond it need not even be
/// kept, because the kth best can only come nearer.
struct EpsilonLimit {
  std::optional<float> epsilon = {};  ///< absent: no limit
  std::uint32_t k = 0;

  /// Candidates with a larger key are farther than (1 + epsilon) x the kth of `found`.
  /// While `found` has fewer than k, there is no limit.
  DistanceKey Limit(const Kernels& kernels, const Beam& found) const {
    if (!epsilon.has_value() || found.size() < k) return ~DistanceKey{0};
    return kernels.ToKey((1 + *epsilon) * kernels.ToDistance(found.key(k - 1)));
  }
};

}  // namespace hmann
