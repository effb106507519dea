#include "index/tune/time_front.h"

#include <cmath>
#include <vector>

#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/format/target.h"

namespace hmann {
namespace {

/// Even: see kRounds of the tuner.
constexpr std::size_t kFinalRounds = 6;

double MedianOf(const std::vector<Timed>& rounds, double Timed::*time) {
  std::vector<double> values;
  for (const Timed& timed : rounds) values.push_back(timed.*time);
  return Median(values);
}

/// Rounds of each setting, every other one backwards.
absl::StatusOr<std::vector<std::vector<Timed>>> TimeInTurns(const TuningRuns& runs,
                                                            const std::vector<Brought>& settings,
                                                            std::uint64_t query,
                                                            const Equation31& equation) {
  std::vector<std::vector<Timed>> rounds(settings.size());
  for (std::size_t round = 0; round < kFinalRounds; ++round) {
    for (std::size_t place = 0; place < settings.size(); ++place) {
      const std::size_t i = round % 2 == 0 ? place : settings.size() - 1 - place;
      const double us = round == 0 ? equation.PredictUs(settings[i].dials, settings[i].counted)
                                   : rounds[i].back().mean_us;
      HMANN_ASSIGN_OR_RETURN(rounds[i].emplace_back(),
                             runs.time(settings[i].dials, query, QueriesOfRound(us, 2 * kRoundUs)));
    }
    query += QueriesOfRound(rounds[0].back().mean_us, 2 * kRoundUs);
  }
  return rounds;
}

}  // namespace

absl::Status TimeFront(const TuningRuns& runs, std::span<const Brought> brought,
                       std::uint64_t first_query, Tuned& tuned) {
  const auto off = [](const Brought& setting) {
    return std::abs(setting.counted.recall - kDefaultRecall);
  };
  const auto again =
      std::min_element(brought.begin(), brought.end(),
                       [&](const Brought& a, const Brought& b) { return off(a) < off(b); });
  std::vector<Brought> settings(brought.begin(), brought.end());
  settings.push_back(*again);
  HMANN_ASSIGN_OR_RETURN(const auto rounds,
                         TimeInTurns(runs, settings, first_query, tuned.equation));
  std::vector<TunedSetting> timed;
  std::vector<Offer> offers;
  for (std::size_t i = 0; i < brought.size(); ++i) {
    const Counted& counted = brought[i].counted;
    timed.push_back({brought[i].dials, counted.recall, RecallLowerBound(counted, kRecallZ),
                     counted.recall_p05, MedianOf(rounds[i], &Timed::mean_us),
                     MedianOf(rounds[i], &Timed::p95_us), MedianOf(rounds[i], &Timed::p99_us)});
    offers.push_back({timed.back().mean_us, timed.back().recall, timed.back().recall_low});
  }
  tuned.same_again = MedianOf(rounds.back(), &Timed::mean_us) /
                     timed[static_cast<std::size_t>(again - brought.begin())].mean_us;
  for (const std::size_t i : OfferFront(offers)) tuned.front.push_back(timed[i]);
  return absl::OkStatus();
}

}  // namespace hmann
