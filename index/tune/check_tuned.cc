#include "index/tune/check_tuned.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Settings of a target that are run again beside the choice, and how often.
constexpr std::size_t kRivals = 6;
constexpr int kDuelRounds = 7;
/// So many of the worst predicted settings are measured again, so often; and their
/// successors, where it was the measurement that was off.
constexpr std::size_t kDoubted = 25, kDoubtPasses = 3;
constexpr int kDoubtRounds = 9;
/// A run of a duel takes no longer than this, or so many queries.
constexpr double kDuelUs = 1e6;
constexpr std::uint64_t kFewestQueries = 2;

ModelError ErrorOf(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  return {Percentile(errors, 0.5), Percentile(errors, 0.95), errors.back()};
}

class Checker {
 public:
  Checker(const Tuned& tuned, const Measure& measure, const TuningCheckOptions& options)
      : tuned_(tuned),
        measure_(measure),
        options_(options),
        queries_(std::min(options.queries, options.most_queries)),
        most_us_(
            options.seconds * 1e6 /
            (static_cast<double>(options.rounds) * static_cast<double>(tuned.settings.size()))) {}

  absl::StatusOr<TuningCheck> Run() {
    std::vector<std::size_t> all(tuned_.settings.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    samples_.resize(all.size());
    count_ = std::max<std::uint64_t>(1, queries_ / static_cast<std::uint64_t>(options_.rounds));
    HMANN_RETURN_IF_ERROR(RunRounds(all, options_.rounds, count_, most_us_, samples_));
    for (const std::vector<Sample>& rounds : samples_)
      check_.measured.push_back(CombineSamples(rounds));
    Drift();
    HMANN_RETURN_IF_ERROR(MeasureDoubted());
    Errors();
    for (const Choice& choice : tuned_.choices) {
      HMANN_ASSIGN_OR_RETURN(ChoiceCheck checked, Duel(choice));
      check_.choices.push_back(checked);
    }
    return std::move(check_);
  }

 private:
  absl::Status RunRounds(const std::vector<std::size_t>& which, int rounds, std::uint64_t count,
                         double most_us, std::vector<std::vector<Sample>>& samples) {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < which.size(); ++i) {
        const TriedSetting& tried = tuned_.settings[which[i]];
        const auto affordable =
            std::max(kFewestQueries, static_cast<std::uint64_t>(most_us / tried.predicted.mean_us));
        if (options_.progress) options_.progress();
        const std::uint64_t first = samples[i].size() * count;
        HMANN_ASSIGN_OR_RETURN(Sample sample,
                               measure_(tried.dials, first, std::min(count, affordable)));
        samples[i].push_back(std::move(sample));
      }
    }
    return absl::OkStatus();
  }

  void Drift() {
    std::vector<double> again;
    for (std::size_t i = 0; i < tuned_.settings.size(); ++i) {
      const Measurement& then = tuned_.settings[i].measured;
      if (then.queries > 0) again.push_back(check_.measured[i].mean_us / then.mean_us);
    }
    check_.pruned =
        1 - static_cast<double>(again.size()) / static_cast<double>(tuned_.settings.size());
    if (again.empty()) return;
    check_.drift = Median(std::move(again)) - 1;
  }

  double SteadyError(std::size_t setting) const {
    return std::abs(tuned_.settings[setting].predicted.mean_us * (1 + check_.drift) /
                        check_.measured[setting].mean_us -
                    1);
  }

  /// Of a thousand settings measured once, a few are measured badly, and those are the
  /// ones that seem predicted worst.
  absl::Status MeasureDoubted() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < tuned_.settings.size(); ++i) {
      if (tuned_.settings[i].measured.queries == 0) order.push_back(i);
    }
    std::vector<bool> measured_again(tuned_.settings.size());
    for (std::size_t pass = 0; pass < kDoubtPasses && !order.empty(); ++pass) {
      std::sort(order.begin(), order.end(),
                [&](std::size_t a, std::size_t b) { return SteadyError(a) > SteadyError(b); });
      if (measured_again[order[0]]) break;
      std::vector<std::size_t> doubted;
      for (const std::size_t i : order) {
        if (!measured_again[i] && doubted.size() < kDoubted) doubted.push_back(i);
      }
      std::vector<std::vector<Sample>> samples(doubted.size());
      for (std::size_t i = 0; i < doubted.size(); ++i) samples[i].swap(samples_[doubted[i]]);
      HMANN_RETURN_IF_ERROR(RunRounds(doubted, kDoubtRounds, count_, 4 * most_us_, samples));
      for (std::size_t i = 0; i < doubted.size(); ++i) {
        measured_again[doubted[i]] = true;
        check_.measured[doubted[i]] = CombineSamples(samples[i]);
        samples_[doubted[i]].swap(samples[i]);
      }
    }
    return absl::OkStatus();
  }

  void Errors() {
    std::vector<double> work, steady, paper, again;
    for (std::size_t i = 0; i < tuned_.settings.size(); ++i) {
      const TriedSetting& tried = tuned_.settings[i];
      if (tried.measured.queries > 0) continue;
      const double measured = check_.measured[i].mean_us;
      work.push_back(std::abs(tried.predicted.mean_us / measured - 1));
      paper.push_back(std::abs(tuned_.paper.PredictUs(tried.dials) / measured - 1));
      steady.push_back(SteadyError(i));
      const std::vector<Sample>& rounds = samples_[i];
      if (steady.back() >= SteadyError(check_.worst) || steady.size() == 1) {
        const auto [low, high] = std::minmax_element(
            rounds.begin(), rounds.end(),
            [](const Sample& a, const Sample& b) { return a.mean_us < b.mean_us; });
        check_.worst = i;
        check_.worst_low_us = low->mean_us;
        check_.worst_high_us = high->mean_us;
      }
      const auto half = static_cast<std::ptrdiff_t>(rounds.size() / 2);
      if (half == 0) continue;
      const double first = CombineSamples({rounds.begin(), rounds.begin() + half}).mean_us;
      again.push_back(
          std::abs(first / CombineSamples({rounds.begin() + half, rounds.end()}).mean_us - 1));
    }
    check_.held_out = work.size();
    check_.work_model = ErrorOf(std::move(work));
    check_.work_model_less_drift = ErrorOf(std::move(steady));
    check_.paper_model = ErrorOf(std::move(paper));
    check_.same_again = ErrorOf(std::move(again));
  }

  static bool Meets(const Measurement& measured, const Target& target) {
    return (target.recall <= 0 || measured.recall >= target.recall) &&
           (target.latency_us <= 0 || measured.mean_us <= target.latency_us);
  }

  static bool Better(const Measurement& a, const Measurement& b, const Target& target) {
    return target.recall > 0 ? a.mean_us < b.mean_us : a.recall > b.recall;
  }

  /// The choice and the likeliest best again, side by side over all test queries, since a
  /// grid's minimum is a lucky one.
  absl::StatusOr<ChoiceCheck> Duel(const Choice& choice) {
    ChoiceCheck checked{.choice = choice};
    std::vector<std::size_t> rivals;
    for (std::size_t i = 0; i < check_.measured.size(); ++i) {
      if (i != choice.setting && Meets(check_.measured[i], choice.target)) rivals.push_back(i);
    }
    std::sort(rivals.begin(), rivals.end(), [&](std::size_t a, std::size_t b) {
      return Better(check_.measured[a], check_.measured[b], choice.target);
    });
    rivals.resize(std::min(rivals.size(), kRivals));
    rivals.push_back(choice.setting);
    std::vector<std::vector<Sample>> samples(rivals.size());
    const std::uint64_t count = std::max<std::uint64_t>(1, options_.queries / kDuelRounds);
    HMANN_RETURN_IF_ERROR(RunRounds(rivals, kDuelRounds, count, kDuelUs, samples));
    Measurement best;
    std::vector<Measurement> again;
    for (const std::vector<Sample>& rounds : samples) again.push_back(CombineSamples(rounds));
    checked.test_recall = again.back().recall;
    checked.test_mean_us = again.back().mean_us;
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      if (!Meets(again[i], choice.target)) continue;
      if (checked.best_exists && !Better(again[i], best, choice.target)) continue;
      best = again[i];
      checked.best_exists = true;
      checked.best = rivals[i];
    }
    checked.best_recall = best.recall;
    checked.best_mean_us = best.mean_us;
    if (!checked.best_exists) return checked;
    checked.best_was_run = tuned_.settings[checked.best].measured.queries > 0;
    checked.regret = choice.target.recall > 0 ? checked.test_mean_us / checked.best_mean_us - 1
                                              : checked.best_recall - checked.test_recall;
    return checked;
  }

  const Tuned& tuned_;
  const Measure& measure_;
  const TuningCheckOptions& options_;
  const std::uint64_t queries_;
  const double most_us_;  ///< of a run of a setting
  std::uint64_t count_ = 0;
  std::vector<std::vector<Sample>> samples_;
  TuningCheck check_;
};

}  // namespace

std::uint64_t MostCheckRuns(const Tuned& tuned, const TuningCheckOptions& options) {
  return static_cast<std::uint64_t>(options.rounds) * tuned.settings.size() +
         kDoubted * kDoubtRounds + tuned.choices.size() * (kRivals + 1) * kDuelRounds;
}

absl::StatusOr<TuningCheck> CheckTuned(const Tuned& tuned, const Measure& measure,
                                       const TuningCheckOptions& options) {
  if (options.queries == 0)
    return absl::InvalidArgumentError("test queries: expected at least 1, found 0");
  return Checker(tuned, measure, options).Run();
}

}  // namespace hmann
