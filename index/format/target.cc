#include "hmann/target.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace hmann {

Target TargetOf(const SearchParams& options) {
  const std::chrono::duration<double, std::micro> latency =
      options.latency.value_or(std::chrono::nanoseconds(0));
  return {options.recall.value_or(0), latency.count()};
}

BestOffer ChooseOffer(std::span<const Offer> offers, const Target& target) {
  BestOffer best;
  const auto meets = [&](const Offer& offer) {
    return (target.recall <= 0 ||
            (offer.recall >= target.recall &&
             offer.recall_low >= target.recall - RecallSlack(target.recall))) &&
           (target.latency_us <= 0 || offer.mean_us * (1 + kLatencyMargin) <= target.latency_us);
  };
  // For a target of both, recall decides what is offered if they exclude each other.
  const auto better = [&](const Offer& a, const Offer& b, bool met) {
    const bool by_time = met == (target.recall > 0);
    return by_time ? a.mean_us < b.mean_us : a.recall > b.recall;
  };
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const bool met = meets(offers[i]);
    if (i == 0 || (met && !best.met) ||
        (met == best.met && better(offers[i], offers[best.place], met)))
      best = {i, met};
  }
  return best;
}

std::vector<std::size_t> OfferFront(std::span<const Offer> offers) {
  std::vector<std::size_t> order(offers.size()), front;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return offers[a].mean_us != offers[b].mean_us ? offers[a].mean_us < offers[b].mean_us
                                                  : offers[a].recall > offers[b].recall;
  });
  for (const std::size_t i : order) {
    if (front.empty() || offers[i].recall > offers[front.back()].recall) front.push_back(i);
  }
  return front;
}

}  // namespace hmann
