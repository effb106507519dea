#include "index/tune/equation31.h"

#include <algorithm>
#include <cmath>

namespace hmann {

double Equation31::SlowWork(const Dials& dials, const Counted& counted) const {
  const double work = counted.Mean(device_ ? &Counters::slow_reads : &Counters::distances_slow);
  if (dials.walk != WalkKind::kMultiStart) return work;
  const double beams = std::max(1.0, static_cast<double>(dials.ef_l1));
  return work * std::ceil(beams / dials.query_threads) / beams;
}

void Equation31::Learn(const Dials& dials, const Counted& counted, double mean_us) {
  const double fast = counted.Mean(&Counters::distances_fast), slow = SlowWork(dials, counted),
               codes = counted.Mean(&Counters::estimates), ns = 1000 * mean_us;
  const auto price = [](double rest, double work) {
    return work > 0 ? std::max(0.0, rest / work) : 0;
  };
  if (dials.walk == WalkKind::kUpper) {
    fast_ns_ = price(ns, fast);
  } else if (dials.walk == WalkKind::kQuantised) {
    code_ns_[dials.nprobe > 0 ? 1 : 0] = price(ns - fast * fast_ns_ - slow * slow_ns_, codes);
  } else if (fast_ns_ > 0) {
    slow_ns_ = price(ns - fast * fast_ns_, slow);
  } else {
    // No search of the upper layers alone: both kinds at one price.
    fast_ns_ = slow_ns_ = price(ns, fast + slow);
  }
}

double Equation31::PredictUs(const Dials& dials, const Counted& counted) const {
  return (counted.Mean(&Counters::distances_fast) * fast_ns_ + SlowWork(dials, counted) * slow_ns_ +
          counted.Mean(&Counters::estimates) * code_ns_[dials.nprobe > 0 ? 1 : 0]) /
         1000;
}

}  // namespace hmann
