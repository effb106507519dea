#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "hmann/distance.h"
#include "hmann/resolved_params.h"
#include "index/graph/beam.h"

namespace hmann {

/// The parameter `epsilon` as a traversal uses it. Candidates beyond it need not even be
/// kept, because the kth best can only come nearer.
class EpsilonLimit {
 public:
  EpsilonLimit() = default;  ///< no limit
  EpsilonLimit(std::optional<float> epsilon, std::uint32_t k) : epsilon_(epsilon), k_(k) {}
  /// `params` must outlive this.
  explicit EpsilonLimit(const ResolvedParams& params) : EpsilonLimit(params.epsilon, params.k) {
    ranks_ = std::span(params.rank_epsilon).first(params.rank_steps);
  }

  /// Candidates with a larger key are farther than (1 + epsilon) x the kth of `found`.
  /// While `found` has fewer than k, there is no limit. `met`: the nearest nodes met,
  /// those of `found` and others.
  DistanceKey Limit(const Kernels& kernels, const Beam& found, const Beam& met) const {
    if (!epsilon_.has_value() || found.size() < k_) return ~DistanceKey{0};
    const DistanceKey kth = found.key(k_ - 1);
    const float epsilon = ranks_.empty() ? *epsilon_ : AtRank(met.Rank(kth));
    return kernels.ToKey((1 + epsilon) * kernels.ToDistance(kth));
  }

 private:
  /// Linear between two ranks.
  float AtRank(std::uint32_t rank) const {
    const std::uint32_t times = std::max(rank / k_, 1u);
    const auto step = static_cast<std::size_t>(std::bit_width(times) - 1);
    if (step + 1 >= ranks_.size()) return ranks_.back();
    const auto from = static_cast<float>(k_ << step);
    const float share = std::max(0.0f, static_cast<float>(rank) / from - 1);
    return std::lerp(ranks_[step], ranks_[step + 1], share);
  }

  std::optional<float> epsilon_;  ///< absent: no limit
  std::uint32_t k_ = 0;
  std::span<const float> ranks_;  ///< ResolvedParams::rank_epsilon
};

}  // namespace hmann
