#include "index/tune/check_tuned.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Settings of a target that are run again beside the choice, and how often.
constexpr std::size_t kRivals = 6;
constexpr int kDuelRounds = 7;
/// A setting of the grid takes no longer than this in a round, or so many queries.
constexpr double kRoundUs = 1e6;
constexpr std::uint64_t kFewestQueries = 5;

ModelError ErrorOf(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) { return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))]; };
  return {at(0.5), at(0.95), errors.back()};
}

class Checker {
 public:
  Checker(const Tuned& tuned, const Measure& measure, const TuningCheckOptions& options)
      : tuned_(tuned), measure_(measure), options_(options), queries_(std::min(options.queries, options.most_queries)) {}

  absl::StatusOr<TuningCheck> Run() {
    std::vector<std::size_t> all(tuned_.settings.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::vector<std::vector<Sample>> samples(all.size());
    HMANN_RETURN_IF_ERROR(RunRounds(all, options_.rounds, queries_ / static_cast<std::uint64_t>(options_.rounds), true, samples));
    std::vector<double> again;
    for (const std::vector<Sample>& rounds : samples) {
      check_.measured.push_back(CombineSamples(rounds));
      const auto half = static_cast<std::ptrdiff_t>(rounds.size() / 2);
      if (half == 0) continue;
      const double first = CombineSamples({rounds.begin(), rounds.begin() + half}).mean_us;
      again.push_back(std::abs(first / CombineSamples({rounds.begin() + half, rounds.end()}).mean_us - 1));
    }
    check_.same_again = ErrorOf(std::move(again)).median;
    Errors();
    for (const Choice& choice : tuned_.choices) {
      HMANN_ASSIGN_OR_RETURN(ChoiceCheck checked, Duel(choice));
      check_.choices.push_back(checked);
    }
    return std::move(check_);
  }

 private:
  absl::Status RunRounds(const std::vector<std::size_t>& which, int rounds, std::uint64_t count, bool bounded,
                         std::vector<std::vector<Sample>>& samples) {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < which.size(); ++i) {
        const TriedSetting& tried = tuned_.settings[which[i]];
        std::uint64_t queries = std::max<std::uint64_t>(1, count);
        if (bounded) queries = std::min(queries, std::max(kFewestQueries, static_cast<std::uint64_t>(kRoundUs / tried.predicted.mean_us)));
        if (options_.progress) options_.progress();
        HMANN_ASSIGN_OR_RETURN(Sample sample, measure_(tried.options, static_cast<std::uint64_t>(round) * count, queries));
        samples[i].push_back(std::move(sample));
      }
    }
    return absl::OkStatus();
  }

  void Errors() {
    std::vector<double> work, steady, paper, again;
    for (std::size_t i = 0; i < tuned_.settings.size(); ++i) {
      const Measurement& then = tuned_.settings[i].measured;
      if (then.queries > 0) again.push_back(check_.measured[i].mean_us / then.mean_us);
    }
    if (!again.empty()) {
      std::nth_element(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(again.size() / 2), again.end());
      check_.drift = again[again.size() / 2] - 1;
    }
    for (std::size_t i = 0; i < tuned_.settings.size(); ++i) {
      const TriedSetting& tried = tuned_.settings[i];
      if (tried.measured.queries > 0) continue;
      const double measured = check_.measured[i].mean_us, predicted = tuned_.model.Predict(tried.options).mean_us;
      work.push_back(std::abs(predicted / measured - 1));
      steady.push_back(std::abs(predicted * (1 + check_.drift) / measured - 1));
      paper.push_back(std::abs(tuned_.paper.PredictUs(tried.options) / measured - 1));
    }
    check_.held_out = work.size();
    check_.work_model = ErrorOf(std::move(work));
    check_.work_model_less_drift = ErrorOf(std::move(steady));
    check_.paper_model = ErrorOf(std::move(paper));
    check_.pruned = 1 - static_cast<double>(again.size()) / static_cast<double>(tuned_.settings.size());
  }

  static bool Meets(const Measurement& measured, const Target& target) {
    return (target.recall <= 0 || measured.recall >= target.recall) && (target.latency_us <= 0 || measured.mean_us <= target.latency_us);
  }

  static bool Better(const Measurement& a, const Measurement& b, const Target& target) {
    return target.recall > 0 ? a.mean_us < b.mean_us : a.recall > b.recall;
  }

  /// The choice and the likeliest best again, side by side over all test queries, since a grid's minimum is a lucky one.
  absl::StatusOr<ChoiceCheck> Duel(const Choice& choice) {
    ChoiceCheck checked{.choice = choice};
    std::vector<std::size_t> rivals;
    for (std::size_t i = 0; i < check_.measured.size(); ++i) {
      if (i != choice.setting && Meets(check_.measured[i], choice.target)) rivals.push_back(i);
    }
    std::sort(rivals.begin(), rivals.end(),
              [&](std::size_t a, std::size_t b) { return Better(check_.measured[a], check_.measured[b], choice.target); });
    rivals.resize(std::min(rivals.size(), kRivals));
    rivals.push_back(choice.setting);
    std::vector<std::vector<Sample>> samples(rivals.size());
    const std::uint64_t count = options_.queries / kDuelRounds;
    HMANN_RETURN_IF_ERROR(RunRounds(rivals, kDuelRounds, count, false, samples));
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
    checked.regret = choice.target.recall > 0 ? checked.test_mean_us / checked.best_mean_us - 1 : checked.best_recall - checked.test_recall;
    return checked;
  }

  const Tuned& tuned_;
  const Measure& measure_;
  const TuningCheckOptions& options_;
  const std::uint64_t queries_;
  TuningCheck check_;
};

}  // namespace

absl::StatusOr<TuningCheck> CheckTuned(const Tuned& tuned, const Measure& measure, const TuningCheckOptions& options) {
  if (options.queries == 0) return absl::InvalidArgumentError("test queries: expected at least 1, found 0");
  return Checker(tuned, measure, options).Run();
}

}  // namespace hmann
