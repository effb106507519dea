/// A synthetic index in closed form: work, recall and time of a setting, with queries of
/// different hardness and a slightly noisy clock. For tests of the tuner.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/base/random.h"
#include "index/tune/tuner.h"

namespace hmann {

struct SyntheticIndex {
  double noise = 0.02;  ///< relative noise of a round's mean time
  double slow_touch_ns = 60;
  double best_recall = 1;  ///< no setting exceeds it
  std::uint64_t queries = 2000;
  mutable std::uint64_t runs = 0;

  static SearchContext Context() { return {.n = 1000000, .n1 = 100000, .has_codes = true}; }

  /// Width of the search in L0: the part that `epsilon` lets a query of middling hardness
  /// keep, if it is set. From cells, k candidates are read in any case.
  static double WidthInL0(const ResolvedParams& params) {
    if (params.epsilon.has_value()) return 600 * static_cast<double>(*params.epsilon);
    const bool from_cells = params.nprobe > 0 && params.ef_l0 > 0;
    return static_cast<double>(from_cells ? std::max(params.ef_l0, params.k) : params.ef_l0);
  }

  static double Logit(const ResolvedParams& params) {
    const double ef_l0 = WidthInL0(params);
    double logit = std::log(ef_l0 + 1) + 0.15 * std::log(params.ef_l1);
    if (params.mode == SearchMode::kMultiStart)
      logit = 0.9 * std::log(params.ef_l1) + 0.3 * std::log(ef_l0 + 1);
    if (params.mode == SearchMode::kQuantized) {
      logit = 0.9 * std::log(ef_l0 + 2) + 0.4 * std::log(1 + static_cast<double>(params.nprobe)) +
              0.1 * std::log(params.ef_l1);
      if (params.error_bound.has_value()) logit += 0.8 * std::log(*params.error_bound / 2) + 0.4;
    }
    return 1.5 * logit - 3;
  }

  /// The counters of `of` queries.
  static Counters Work(const ResolvedParams& params, std::uint64_t of = 1000) {
    const auto each = static_cast<double>(of);
    const double ef_l0 = WidthInL0(params);
    const auto ef_l1 = static_cast<double>(params.ef_l1);
    double slow = 12 * ef_l0 + 40, fast = 200 + 15 * ef_l1, codes = 0, rounds = ef_l0 + 5;
    if (params.mode == SearchMode::kMultiStart) slow = 9 * ef_l1 * (ef_l0 + 1);
    if (params.mode == SearchMode::kQuantized) {
      codes = 20 * ef_l0 + 8 * static_cast<double>(params.nprobe);
      slow = (ef_l0 + 4) *
                 (params.error_bound.has_value() ? std::min(1.0, *params.error_bound / 2.5) : 1) +
             2;
      rounds = slow / params.beam_width + 1;
    }
    Counters counters;
    counters.distances_fast = static_cast<std::uint64_t>(std::lround(each * fast));
    counters.distances_slow = static_cast<std::uint64_t>(std::lround(each * slow));
    counters.node_accesses = counters.distances_slow;
    counters.node_reads = counters.distances_slow;
    counters.node_bytes = 256 * counters.node_reads;
    counters.estimates = static_cast<std::uint64_t>(std::lround(each * codes));
    counters.hops = static_cast<std::uint64_t>(std::lround(each * rounds));
    counters.expanded_l1 = static_cast<std::uint64_t>(std::lround(each * (ef_l1 + 4)));
    counters.expanded_l0 = static_cast<std::uint64_t>(std::lround(each * ef_l0));
    return counters;
  }

  /// The mean time without noise.
  double MeanUs(const ResolvedParams& params) const {
    const Counters work = Work(params);
    const double share = params.mode == SearchMode::kMultiStart ? 1.0 / params.query_threads : 1;
    const double ns =
        2000 + 20e-3 * static_cast<double>(work.distances_fast) +
        share * (25 + slow_touch_ns) * 1e-3 * static_cast<double>(work.node_accesses) +
        6e-3 * static_cast<double>(work.estimates) +
        share * 100e-3 * static_cast<double>(work.hops) + (params.query_threads > 1 ? 9000 : 0);
    return ns / 1000;
  }

  double RecallOf(const ResolvedParams& params, std::uint64_t query) const {
    const double hardness = 3 * (RandomUnit(11, query) - 0.5);
    return best_recall / (1 + std::exp(-Logit(params) - hardness));
  }

  double MeanRecall(const ResolvedParams& params) const {
    double sum = 0;
    for (std::uint64_t query = 0; query < queries; ++query)
      sum += RecallOf(params, query) / static_cast<double>(queries);
    return sum;
  }

  Counted Count(const ResolvedParams& params, std::uint64_t count) const {
    Counted counted{.queries = std::min(count, queries)};
    const auto n = static_cast<double>(counted.queries);
    double squares = 0;
    for (std::uint64_t query = 0; query < counted.queries; ++query) {
      const double recall = RecallOf(params, query);
      counted.recall += recall / n;
      squares += recall * recall / n;
    }
    counted.recall_deviation = std::sqrt(std::max(0.0, squares - counted.recall * counted.recall));
    counted.counters = Work(params, counted.queries);
    return counted;
  }

  Timed Time(const ResolvedParams& params, std::uint64_t count) const {
    Timed timed{.queries = count};
    timed.mean_us = MeanUs(params) * (1 + noise * (2 * RandomUnit(5, runs++) - 1));
    timed.p95_us = 1.4 * timed.mean_us;
    timed.p99_us = 2 * timed.mean_us;
    return timed;
  }

  TuningRuns AsRuns() const {
    return {[this](const ResolvedParams& params, std::uint64_t count) -> absl::StatusOr<Counted> {
              return Count(params, count);
            },
            [this](const ResolvedParams& params, std::uint64_t,
                   std::uint64_t count) -> absl::StatusOr<Timed> { return Time(params, count); }};
  }
};

}  // namespace hmann
