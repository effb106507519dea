#pragma once

#include <cstdint>
#include <optional>

#include "index/distance/distance.h"
#include "index/graph/beam.h"

namespace hmann {

/// The dial `reach` as a walk uses it. What is beyond it need not even be kept: the kth best only comes nearer.
struct Reach {
  std::optional<float> times = {};  ///< absent: no end
  std::uint32_t k = 0;

  /// Candidates of a larger key are out of reach of the kth of `found`; all are within while it has fewer.
  DistanceKey Limit(const Kernels& kernels, const Beam& found) const {
    if (!times.has_value() || found.size() < k) return ~DistanceKey{0};
    return kernels.ToKey(*times * kernels.ToDistance(found.key(k - 1)));
  }
};

}  // namespace hmann
