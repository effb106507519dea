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

/// A search from cells that no epsilon ends follows the query by its widths. If r is the
/// distance of the kth that it has found over the typical one, it scores r x r times the
/// cells and reads r times the candidates, one to kMostWider times as many. On
/// text and SIFT this takes no more reads for a recall, and finds as much of kinds of
/// queries that were not learned from. Both powers are guesses (doc/notes/tuning.md).
struct CellEffort {
  static constexpr float kMostWider = 4;

  static bool FollowsQuery(const ResolvedParams& params) {
    return params.nprobe > 0 && params.typical_distance > 0 && !params.epsilon.has_value();
  }
  static std::uint32_t MostCells(const ResolvedParams& params) {
    return FollowsQuery(params) ? Times(params.nprobe, kMostWider) : params.nprobe;
  }
  static std::uint32_t MostCandidates(const ResolvedParams& params) {
    return Candidates(params, FollowsQuery(params) ? kMostWider : 1);
  }
  /// `found`: the k nearest found so far.
  static float Farther(const ResolvedParams& params, const Kernels& kernels, const Beam& found) {
    if (!FollowsQuery(params)) return 1;
    if (found.size() < params.k) return kMostWider;
    const float ratio = kernels.ToDistance(found.key(params.k - 1)) / params.typical_distance;
    return std::clamp(ratio, 1.0f, kMostWider);
  }
  static std::uint32_t Cells(const ResolvedParams& params, float farther) {
    return Times(params.nprobe, std::min(farther * farther, kMostWider));
  }
  static std::uint32_t Candidates(const ResolvedParams& params, float farther) {
    return std::max(params.k, Times(params.ef_l0, farther));
  }

 private:
  static std::uint32_t Times(std::uint32_t width, float times) {
    return static_cast<std::uint32_t>(static_cast<float>(width) * times);
  }
};

/// The parameter `epsilon` as a traversal uses it.
class EpsilonLimit {
 public:
  EpsilonLimit() = default;  ///< no limit
  /// Refers to the kth, whatever params.k is. `unit`: of the kernels' distances, in those
  /// of the index (ScalarQuantizer::unit).
  EpsilonLimit(const ResolvedParams& params, std::uint32_t k, float unit) : k_(k), unit_(unit) {
    if (params.epsilon.has_value()) epsilon_ = params.Epsilon();
  }
  /// `params` must outlive this. `most`: the largest key of an answer.
  static EpsilonLimit Of(const ResolvedParams& params, DistanceKey most, float unit = 1) {
    EpsilonLimit limit(params, params.k, unit);
    limit.SetRanks(params, most);
    return limit;
  }

  /// A search ends at a candidate with a larger key. It is farther than (1 + epsilon) x
  /// the last of `found` that is wanted: the kth, or the nearest beyond which no answers
  /// are. While it is not known, there is no limit. `met`: the nearest nodes met, those
  /// of `found` and others.
  DistanceKey End(const Kernels& kernels, const Beam& found, const Beam& met) const {
    return Limit(kernels, found, met, EpsilonLine::kLeast);
  }
  /// Nodes with a larger key are neither expanded nor answers, and the kth best can only
  /// come nearer.
  DistanceKey Kept(const Kernels& kernels, const Beam& found, const Beam& met) const {
    return Limit(kernels, found, met, 0);
  }
  DistanceKey most() const { return most_; }

 private:
  DistanceKey Limit(const Kernels& kernels, const Beam& found, const Beam& met, float least) const {
    if (!epsilon_.has_value() || found.size() == 0) return ~DistanceKey{0};
    DistanceKey last = std::max(most_, found.key(0));
    if (found.size() >= k_) last = std::min(last, found.key(k_ - 1));
    if (last == ~DistanceKey{0}) return last;
    const float distance = kernels.ToDistance(last);
    const float of_index = unit_ * distance;
    const float epsilon =
        ranks_.empty() ? epsilon_->At(of_index) : AtRank(met.Rank(last), of_index);
    return kernels.ToKey((1 + std::max(epsilon, least)) * distance);
  }

  void SetRanks(const ResolvedParams& params, DistanceKey most) {
    ranks_ = std::span(params.rank_epsilon).first(params.rank_steps);
    first_rank_ = params.max_distance.has_value() ? 1 : params.k;
    most_ = most;
  }

  /// Linear between two ranks.
  float AtRank(std::uint32_t rank, float distance) const {
    const std::uint32_t times = std::max(rank / first_rank_, 1u);
    const auto step = static_cast<std::size_t>(std::bit_width(times) - 1);
    if (step + 1 >= ranks_.size()) return ranks_.back().At(distance);
    const auto from = static_cast<float>(first_rank_ << step);
    const float share = std::max(0.0f, static_cast<float>(rank) / from - 1);
    return std::lerp(ranks_[step].At(distance), ranks_[step + 1].At(distance), share);
  }

  std::optional<EpsilonLine> epsilon_;  ///< absent: no limit
  std::uint32_t k_ = 0;
  float unit_ = 1;
  DistanceKey most_ = ~DistanceKey{0};
  std::uint32_t first_rank_ = 1;        ///< of ranks_
  std::span<const EpsilonLine> ranks_;  ///< ResolvedParams::rank_epsilon
};

}  // namespace hmann
