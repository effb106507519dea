#include "index/tune/cost_model.h"

#include <algorithm>
#include <cmath>

#include "index/tune/least_squares.h"

namespace hmann {
namespace {

constexpr std::array kEveryWalk = {WalkKind::kMultiStart, WalkKind::kBestFirst,
                                   WalkKind::kQuantised};

std::size_t Number(WalkKind walk) { return static_cast<std::size_t>(walk); }

double Mean(const Measurement& measured, std::uint64_t Counters::*value) {
  return static_cast<double>(measured.counters.*value) /
         static_cast<double>(std::max<std::uint64_t>(measured.counted, 1));
}

std::vector<double> MeanCounts(const Measurement& measured) {
  std::vector<double> means;
  for (const CounterName& counter : CounterNames()) means.push_back(Mean(measured, counter.value));
  return means;
}

/// Place of a counter among CounterNames.
std::size_t PlaceOf(std::uint64_t Counters::*value) {
  const auto names = CounterNames();
  return static_cast<std::size_t>(
      std::find_if(names.begin(), names.end(),
                   [&](const auto& name) { return name.value == value; }) -
      names.begin());
}

/// What the busiest thread of a query has of the beams in L0.
double BusiestShare(const Dials& dials) {
  if (dials.walk != WalkKind::kMultiStart || dials.query_threads <= 1) return 1;
  const double beams = std::max(1.0, static_cast<double>(dials.ef_l1));
  return std::ceil(beams / dials.query_threads) / beams;
}

/// A setting as a point of what its time depends on.
Surface::Point TimePoint(const Dials& dials) {
  Surface::Point point = DialPoint(dials);
  point.push_back(4 * std::log2(dials.query_threads));
  point.push_back(dials.prefetch == Prefetch::kRound ? 0 : 4);
  return point;
}

}  // namespace

double RecallLogit(double recall, double answers) {
  const double least = 0.5 / std::max(answers, 1.0);
  const double share = std::clamp(recall, least, 1 - least);
  return std::log(share / (1 - share));
}

double PaperModel::Beams(const Dials& dials) {
  if (dials.walk != WalkKind::kMultiStart) return 1;
  return std::ceil(static_cast<double>(dials.ef_l1) / dials.query_threads);
}

PaperModel PaperModel::Fit(std::span<const Observation> observations, const CostPriors& priors) {
  PaperModel model;
  for (const WalkKind walk : kEveryWalk) {
    PerWalk& fitted = model.walks_[Number(walk)];
    std::vector<double> rows, ones;
    double c1 = 0, c0 = 0, n1 = 0, n0 = 0;
    for (const Observation& observation : observations) {
      if (observation.dials.walk != walk || observation.measured.mean_us <= 0) continue;
      // Counters do not tell layers apart but by where the vector lay: what is computed
      // in fast memory is L1's, the rest L0's.
      const double above = Mean(observation.measured, &Counters::distances_fast),
                   below = Mean(observation.measured, &Counters::distances_slow);
      Dials alone = observation.dials;
      alone.query_threads = 1;
      c1 += above / std::max(1.0, static_cast<double>(alone.ef_l1));
      ++n1;
      if (alone.ef_l0 > 0) {
        c0 += below / (Beams(alone) * static_cast<double>(alone.ef_l0));
        ++n0;
      }
    }
    if (n1 == 0) continue;
    fitted.c1 = c1 / n1;
    fitted.c0 = n0 > 0 ? c0 / n0 : 0;
    fitted.fast_us = priors.fast_distance_ns.value_or(0) / 1000;
    fitted.slow_us = priors.slow_distance_ns.value_or(0) / 1000;
    if (priors.fast_distance_ns.has_value() && priors.slow_distance_ns.has_value()) continue;
    for (const Observation& observation : observations) {
      const Dials& dials = observation.dials;
      if (dials.walk != walk || observation.measured.mean_us <= 0) continue;
      rows.push_back(dials.ef_l1 * fitted.c1 / observation.measured.mean_us);
      rows.push_back(Beams(dials) * static_cast<double>(dials.ef_l0) * fitted.c0 /
                     observation.measured.mean_us);
      ones.push_back(1);
    }
    const std::vector<double> times = NonNegativeLeastSquares(rows, ones, 2);
    fitted.fast_us = times[0];
    fitted.slow_us = times[1];
  }
  return model;
}

double PaperModel::PredictUs(const Dials& dials) const {
  const PerWalk& walk = walks_[Number(dials.walk)];
  return dials.ef_l1 * walk.c1 * walk.fast_us +
         Beams(dials) * static_cast<double>(dials.ef_l0) * walk.c0 * walk.slow_us;
}

WorkModel::Work WorkModel::WorkOf(const Dials& dials, std::span<const double> counts) {
  static const std::size_t kFast = PlaceOf(&Counters::distances_fast),
                           kSlow = PlaceOf(&Counters::distances_slow),
                           kCodes = PlaceOf(&Counters::estimates),
                           kL1 = PlaceOf(&Counters::expanded_l1),
                           kL0 = PlaceOf(&Counters::expanded_l0),
                           kTouches = PlaceOf(&Counters::slow_touches),
                           kRounds = PlaceOf(&Counters::rounds),
                           kBytes = PlaceOf(&Counters::slow_bytes),
                           kReads = PlaceOf(&Counters::io_reads);
  const double share = BusiestShare(dials);
  // An entry of a sorted beam moves half of the beam on average; a beam that is never
  // full moves less.
  const double width = dials.walk == WalkKind::kMultiStart
                           ? static_cast<double>(dials.k) + dials.ef_l0
                           : static_cast<double>(std::max(dials.ef_l0, dials.k));
  const double moves = (counts[kL1] * static_cast<double>(std::max(dials.ef_l1, dials.ef_l0)) +
                        share * counts[kL0] * width) /
                       1000;
  return {1,
          counts[kFast],
          counts[kSlow] * share,
          counts[kCodes],
          counts[kL1],
          counts[kL0] * share,
          counts[kTouches] * share,
          counts[kRounds] * share,
          counts[kBytes] / 1024 * share,
          counts[kReads] * share,
          moves,
          static_cast<double>(dials.nprobe),
          dials.query_threads > 1 ? 1.0 : 0.0};
}

double WorkModel::Price(const Dials& dials, std::span<const double> counts) const {
  static const std::size_t kBytes = PlaceOf(&Counters::slow_bytes);
  const Work work = WorkOf(dials, counts);
  const auto& prices = prices_[Number(dials.walk)];
  double ns = 0;
  for (std::size_t i = 0; i < kKinds; ++i) ns += work[i] * prices[i];
  if (bandwidth_gb_per_s_ > 0) ns = std::max(ns, counts[kBytes] / bandwidth_gb_per_s_);
  return ns / 1000;
}

double WorkModel::PriceUs(const Observation& observation) const {
  return Price(observation.dials, MeanCounts(observation.measured));
}

void WorkModel::FitPrices(std::span<const Observation> observations, const CostPriors& priors,
                          WalkKind walk) {
  std::vector<double> rows, ones;
  for (const Observation& observation : observations) {
    const Measurement& measured = observation.measured;
    if (observation.dials.walk != walk || measured.mean_us <= 0) continue;
    const Work work = WorkOf(observation.dials, MeanCounts(measured));
    for (const double value : work) rows.push_back(value / (1000 * measured.mean_us));
    ones.push_back(1);
  }
  if (ones.empty()) return;
  const std::pair<std::size_t, std::optional<double>> known[] = {{1, priors.fast_distance_ns},
                                                                 {2, priors.slow_distance_ns},
                                                                 {3, priors.estimate_ns},
                                                                 {6, priors.touch_ns},
                                                                 {7, priors.round_ns}};
  for (const auto& [kind, price_ns] : known) {
    if (!price_ns.has_value() || *price_ns <= 0) continue;
    for (std::size_t i = 0; i < kKinds; ++i) rows.push_back(i == kind ? 1 / *price_ns : 0);
    ones.push_back(1);
  }
  const std::vector<double> prices = NonNegativeLeastSquares(rows, ones, kKinds);
  std::copy(prices.begin(), prices.end(), prices_[Number(walk)].begin());
}

void WorkModel::FitFamily(std::span<const Observation> observations, std::size_t family) {
  std::vector<Surface::Point> points, time_points;
  std::vector<double> recall, rest;
  std::vector<std::vector<double>> logs(CounterNames().size());
  for (const Observation& observation : observations) {
    if (DialFamily(observation.dials) != family || observation.measured.mean_us <= 0) continue;
    const Measurement& measured = observation.measured;
    points.push_back(DialPoint(observation.dials));
    time_points.push_back(TimePoint(observation.dials));
    recall.push_back(
        RecallLogit(measured.recall, static_cast<double>(measured.queries) * observation.dials.k));
    const std::vector<double> counts = MeanCounts(measured);
    for (std::size_t i = 0; i < counts.size(); ++i) logs[i].push_back(std::log1p(counts[i]));
    rest.push_back(std::log(measured.mean_us / std::max(Price(observation.dials, counts), 1e-6)));
  }
  if (points.empty()) return;
  Family fitted;
  for (const std::vector<double>& values : logs)
    fitted.counts.push_back(Surface::Fit(points, values));
  fitted.recall = Surface::Fit(points, recall);
  fitted.rest = Surface::Fit(time_points, rest);
  fitted.time_error = fitted.rest.leave_one_out_error();
  fitted.recall_error = fitted.recall.leave_one_out_error();
  families_[family] = std::move(fitted);
}

WorkModel WorkModel::Fit(std::span<const Observation> observations, const CostPriors& priors) {
  WorkModel model;
  model.bandwidth_gb_per_s_ = priors.bandwidth_gb_per_s.value_or(0);
  for (const WalkKind walk : kEveryWalk) model.FitPrices(observations, priors, walk);
  for (std::size_t family = 0; family < kDialFamilies; ++family)
    model.FitFamily(observations, family);
  return model;
}

std::vector<double> WorkModel::CountsOf(const Dials& dials) const {
  const Surface::Point point = DialPoint(dials);
  std::vector<double> counts;
  for (const Surface& surface : families_[DialFamily(dials)]->counts)
    counts.push_back(std::max(0.0, std::expm1(surface.At(point))));
  return counts;
}

Prediction WorkModel::Predict(const Dials& dials) const {
  const Family& family = *families_[DialFamily(dials)];
  const double priced = Price(dials, CountsOf(dials));
  return {priced * std::exp(family.rest.At(TimePoint(dials))),
          1 / (1 + std::exp(-family.recall.At(DialPoint(dials))))};
}

}  // namespace hmann
