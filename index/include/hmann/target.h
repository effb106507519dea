#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hmann/search_params.h"

namespace hmann {

/// The goal of a search, given instead of parameters: a recall to reach as fast as
/// possible, or a mean time to stay within at the best recall that it allows, or both.
struct Target {
  double recall = 0;      ///< mean over queries, in (0, 1]; 0: none
  double latency_us = 0;  ///< mean time per query; 0: none
};

/// The target in the options of a user.
Target TargetOf(const SearchParams& options);

/// How far the lower bound of a mean recall may lie below a target that the mean itself
/// reaches: a tenth of the misses (a guess). With many learning queries the mean decides,
/// with few the bound.
constexpr double RecallSlack(double target) { return 0.1 * (1 - target); }

/// How far a measured mean time must lie below a latency target. Among many settings
/// within the time, the one with the highest recall was probably measured a little too
/// fast.
constexpr double kLatencyMargin = 0.03;

/// The properties of a setting that matter to a target.
struct Offer {
  double mean_us = 0;
  double recall = 0;      ///< mean over the learning queries
  double recall_low = 0;  ///< its lower confidence bound
};

/// The best offer for a target, and whether it meets the target. Recall: the fastest
/// offer that reaches it, otherwise the one with the highest recall. Latency alone: the
/// highest recall within it, otherwise the fastest offer. Requires at least one offer.
struct BestOffer {
  std::size_t place = 0;
  bool met = false;
};
BestOffer ChooseOffer(std::span<const Offer> offers, const Target& target);

/// Indices of the offers that no other beats in both time and recall, ascending by
/// mean_us.
std::vector<std::size_t> OfferFront(std::span<const Offer> offers);

}  // namespace hmann
