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

/// The key of ResolvedParams::max_distance; the largest if there is none.
inline DistanceKey MostKey(const Kernels& kernels, const ResolvedParams& params) {
  return params.max_distance.has_value() ? kernels.ToKey(*params.max_distance) : ~DistanceKey{0};
}

/// The parameter `epsilon` as a traversal uses it. Candidates beyond it need not even be
/// kept, because the kth best can only come nearer.
class EpsilonLimit {
 public:
  EpsilonLimit() = default;  ///< no limit
  EpsilonLimit(std::optional<float> epsilon, std::uint32_t k) : epsilon_(epsilon), k_(k) {}
  /// `params` must outlive this. `most`: the largest key of an answer.
  EpsilonLimit(const ResolvedParams& params, DistanceKey most)
      : EpsilonLimit(params.epsilon, params.k) {
    ranks_ = std::span(params.rank_epsilon).first(params.rank_steps);
    first_rank_ = params.max_distance.has_value() ? 1 : params.k;
    most_ = most;
  }

  /// Candidates with a larger key are farther than (1 + epsilon) x the last of `found`
  /// that is wanted: the kth, or the nearest beyond which there are no answers. While it
  /// is not known, there is no limit. `met`: the nearest nodes met, those of `found` and
  /// others.
  DistanceKey Limit(const Kernels& kernels, const Beam& found, const Beam& met) const {
    if (!epsilon_.has_value() || found.size() == 0) return ~DistanceKey{0};
    DistanceKey last = std::max(most_, found.key(0));
    if (found.size() >= k_) last = std::min(last, found.key(k_ - 1));
    if (last == ~DistanceKey{0}) return last;
    const float epsilon = ranks_.empty() ? *epsilon_ : AtRank(met.Rank(last));
    return kernels.ToKey((1 + epsilon) * kernels.ToDistance(last));
  }
  DistanceKey most() const { return most_; }

 private:
  /// Linear between two ranks.
  float AtRank(std::uint32_t rank) const {
    const std::uint32_t times = std::max(rank / first_rank_, 1u);
    const auto step = static_cast<std::size_t>(std::bit_width(times) - 1);
    if (step + 1 >= ranks_.size()) return ranks_.back();
    const auto from = static_cast<float>(first_rank_ << step);
    const float share = std::max(0.0f, static_cast<float>(rank) / from - 1);
    return std::lerp(ranks_[step], ranks_[step + 1], share);
  }

  std::optional<float> epsilon_;  ///< absent: no limit
  std::uint32_t k_ = 0;
  DistanceKey most_ = ~DistanceKey{0};
  std::uint32_t first_rank_ = 1;  ///< of ranks_
  std::span<const float> ranks_;  ///< ResolvedParams::rank_epsilon
};

}  // namespace hmann
