#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hmann/search_options.h"

namespace hmann {

/// What is wanted of a search instead of dials: a recall to reach, as fast as may be; or
/// a mean time to keep, with the best recall that it allows; or both.
struct Target {
  double recall = 0;      ///< mean over queries, in (0, 1]; 0: none
  double latency_us = 0;  ///< mean of a query; 0: none
};

/// Of what a user says.
Target TargetOf(const SearchOptions& options);

/// So far may the lower bound of a mean recall lie below a target that the mean itself
/// reaches, a tenth of the misses (a guess): with many learning queries the mean decides,
/// with few the bound.
constexpr double RecallSlack(double target) { return 0.1 * (1 - target); }

/// So far must a measured mean time lie below a latency target. Of many settings within a
/// time the one of highest recall is likely one that was measured a little too fast.
constexpr double kLatencyMargin = 0.03;

/// A setting as a target sees it.
struct Offer {
  double mean_us = 0;
  double recall = 0;      ///< mean over the learning queries
  double recall_low = 0;  ///< its lower confidence bound
};

/// The best offer for a target, and whether it meets it. Recall: the fastest that reaches
/// it, or else the one of highest recall. Latency alone: the highest recall within it, or
/// else the fastest. Requires an offer.
struct BestOffer {
  std::size_t place = 0;
  bool met = false;
};
BestOffer ChooseOffer(std::span<const Offer> offers, const Target& target);

/// Offers that no other beats in both time and recall, mean_us ascending, as indices.
std::vector<std::size_t> OfferFront(std::span<const Offer> offers);

}  // namespace hmann
