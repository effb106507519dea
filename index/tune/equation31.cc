#include "index/tune/equation31.h"

#include <algorithm>
#include <cmath>

namespace hmann {
namespace {

std::size_t KindOf(const ResolvedParams& params) {
  if (params.mode != SearchMode::kQuantized) return 2;
  return params.nprobe > 0 ? 1 : 0;
}

}  // namespace

double Equation31::SlowWork(const ResolvedParams& params, const Counted& counted) const {
  const double work = counted.Mean(device_ ? &Counters::node_reads : &Counters::distances_slow);
  if (params.mode != SearchMode::kMultiStart) return work;
  const double ep = std::max(1.0, static_cast<double>(params.ef_l1));
  return work * std::ceil(ep / params.query_threads) / ep;
}

void Equation31::Learn(const ResolvedParams& params, const Counted& counted, double mean_us) {
  const double fast = counted.Mean(&Counters::distances_fast), slow = SlowWork(params, counted),
               codes = counted.Mean(&Counters::estimates), ns = 1000 * mean_us;
  const auto price = [](double rest, double work) {
    return work > 0 ? std::max(0.0, rest / work) : 0;
  };
  if (params.mode == SearchMode::kUpper) {
    fast_ns_ = price(ns, fast);
  } else if (params.mode == SearchMode::kQuantized) {
    code_ns_[KindOf(params)] = price(ns - fast * fast_ns_ - slow * slow_ns_, codes);
  } else if (fast_ns_ > 0) {
    // One time tells one price: a random line is most of both kinds.
    slow_ns_ = code_ns_[KindOf(params)] = price(ns - fast * fast_ns_, slow + codes);
  } else {
    // Without a search of the upper layers alone, all kinds get one price.
    fast_ns_ = slow_ns_ = code_ns_[KindOf(params)] = price(ns, fast + slow + codes);
  }
}

double Equation31::PredictUs(const ResolvedParams& params, const Counted& counted) const {
  return (counted.Mean(&Counters::distances_fast) * fast_ns_ +
          SlowWork(params, counted) * slow_ns_ +
          counted.Mean(&Counters::estimates) * code_ns_[KindOf(params)]) /
         1000;
}

}  // namespace hmann
