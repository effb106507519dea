/// An index that is arithmetic: work, recall and time of a setting in closed form, with
/// queries of different hardness and a clock that is a little off. For tests of the
/// tuner.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/base/random.h"
#include "index/tune/tuner.h"

namespace hmann {

struct SyntheticIndex {
  double noise = 0.02;  ///< of a round's mean time, relative
  double slow_touch_ns = 60;
  double best_recall = 1;  ///< no setting exceeds it
  std::uint64_t queries = 2000;
  mutable std::uint64_t runs = 0;

  static SearchContext Context() { return {.n = 1000000, .n1 = 100000, .has_codes = true}; }

  /// Of L0: what `epsilon` lets a query of middling hardness keep, where it is set.
  static double WidthInL0(const Dials& dials) {
    return dials.epsilon.has_value() ? 600 * static_cast<double>(*dials.epsilon)
                                     : static_cast<double>(dials.ef_l0);
  }

  static double Logit(const Dials& dials) {
    const double ef_l0 = WidthInL0(dials);
    double logit = std::log(ef_l0 + 1) + 0.15 * std::log(dials.ef_l1);
    if (dials.walk == WalkKind::kMultiStart)
      logit = 0.9 * std::log(dials.ef_l1) + 0.3 * std::log(ef_l0 + 1);
    if (dials.walk == WalkKind::kQuantised) {
      logit = 0.9 * std::log(ef_l0 + 2) + 0.4 * std::log(1 + static_cast<double>(dials.nprobe)) +
              0.1 * std::log(dials.ef_l1);
      if (dials.error_bound.has_value()) logit += 0.8 * std::log(*dials.error_bound / 2) + 0.4;
    }
    return 1.5 * logit - 3;
  }

  /// Of so many queries.
  static Counters Work(const Dials& dials, std::uint64_t of = 1000) {
    const auto each = static_cast<double>(of);
    const double ef_l0 = WidthInL0(dials);
    const auto ef_l1 = static_cast<double>(dials.ef_l1);
    double slow = 12 * ef_l0 + 40, fast = 200 + 15 * ef_l1, codes = 0, rounds = ef_l0 + 5;
    if (dials.walk == WalkKind::kMultiStart) slow = 9 * ef_l1 * (ef_l0 + 1);
    if (dials.walk == WalkKind::kQuantised) {
      codes = 20 * ef_l0 + 8 * static_cast<double>(dials.nprobe);
      slow = (ef_l0 + 4) *
                 (dials.error_bound.has_value() ? std::min(1.0, *dials.error_bound / 2.5) : 1) +
             2;
      rounds = slow / dials.beam_width + 1;
    }
    Counters counters;
    counters.distances_fast = static_cast<std::uint64_t>(std::lround(each * fast));
    counters.distances_slow = static_cast<std::uint64_t>(std::lround(each * slow));
    counters.slow_touches = counters.distances_slow;
    counters.slow_reads = counters.distances_slow;
    counters.slow_bytes = 256 * counters.slow_reads;
    counters.estimates = static_cast<std::uint64_t>(std::lround(each * codes));
    counters.rounds = static_cast<std::uint64_t>(std::lround(each * rounds));
    counters.expanded_l1 = static_cast<std::uint64_t>(std::lround(each * (ef_l1 + 4)));
    counters.expanded_l0 = static_cast<std::uint64_t>(std::lround(each * ef_l0));
    return counters;
  }

  /// Without noise.
  double MeanUs(const Dials& dials) const {
    const Counters work = Work(dials);
    const double share = dials.walk == WalkKind::kMultiStart ? 1.0 / dials.query_threads : 1;
    const double ns = 2000 + 20e-3 * static_cast<double>(work.distances_fast) +
                      share * (25 + slow_touch_ns) * 1e-3 * static_cast<double>(work.slow_touches) +
                      6e-3 * static_cast<double>(work.estimates) +
                      share * 100e-3 * static_cast<double>(work.rounds) +
                      (dials.query_threads > 1 ? 9000 : 0);
    return ns / 1000;
  }

  double RecallOf(const Dials& dials, std::uint64_t query) const {
    const double hardness = 3 * (RandomUnit(11, query) - 0.5);
    return best_recall / (1 + std::exp(-Logit(dials) - hardness));
  }

  double MeanRecall(const Dials& dials) const {
    double sum = 0;
    for (std::uint64_t query = 0; query < queries; ++query)
      sum += RecallOf(dials, query) / static_cast<double>(queries);
    return sum;
  }

  Counted Count(const Dials& dials, std::uint64_t count) const {
    Counted counted{.queries = std::min(count, queries)};
    const auto n = static_cast<double>(counted.queries);
    double squares = 0;
    for (std::uint64_t query = 0; query < counted.queries; ++query) {
      const double recall = RecallOf(dials, query);
      counted.recall += recall / n;
      squares += recall * recall / n;
    }
    counted.recall_deviation = std::sqrt(std::max(0.0, squares - counted.recall * counted.recall));
    counted.counters = Work(dials, counted.queries);
    return counted;
  }

  Timed Time(const Dials& dials, std::uint64_t count) const {
    Timed timed{.queries = count};
    timed.mean_us = MeanUs(dials) * (1 + noise * (2 * RandomUnit(5, runs++) - 1));
    timed.p95_us = 1.4 * timed.mean_us;
    timed.p99_us = 2 * timed.mean_us;
    return timed;
  }

  TuningRuns AsRuns() const {
    return {[this](const Dials& dials, std::uint64_t count) -> absl::StatusOr<Counted> {
              return Count(dials, count);
            },
            [this](const Dials& dials, std::uint64_t,
                   std::uint64_t count) -> absl::StatusOr<Timed> { return Time(dials, count); }};
  }
};

}  // namespace hmann
