#include "index/tune/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Recalls that the front is to be dense at.
constexpr double kFollowed[] = {0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995};
/// A setting takes no longer than this in a round of the first part; a slower one is run
/// with fewer queries.
constexpr double kRoundUs = 5e5;
constexpr std::uint64_t kFewestQueries = 5, kProbe = 2;
constexpr std::uint64_t kRounds = 5;
/// A setting that no target asks for is run on all queries only if that takes no longer.
constexpr double kFinalUs = 1e7;
/// What a model is believed to miss at least: standard deviations of log(time) and of
/// logit(recall).
constexpr double kLeastTimeError = 0.05, kLeastRecallError = 0.05;
/// A setting is dropped when the chance that it wins is lower.
constexpr double kWorthARun = 0.05;

/// Chance that a normal value stays below `x` standard deviations.
double NormalBelow(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

class Tuner {
 public:
  Tuner(const std::vector<Dials>& grid, const Measure& measure, const TunerOptions& options)
      : measure_(measure), options_(options), targets_(options.targets), rounds_(grid.size()) {
    for (const Dials& dials : grid)
      result_.settings.push_back(
          {.dials = dials, .fate = Fate::kDropped, .predicted = {}, .measured = {}});
    for (const double recall : kFollowed) targets_.push_back({.recall = recall});
    first_queries_ = std::min(options.first_queries, options.queries);
  }

  absl::StatusOr<Tuned> Run() {
    const auto most = static_cast<std::size_t>(options_.most_measured *
                                               static_cast<double>(result_.settings.size()));
    const std::vector<std::size_t> seeds = Seeds();
    HMANN_RETURN_IF_ERROR(RunFirst(seeds, Fate::kSeed));
    constexpr std::size_t kPasses = 4;
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      Predict();
      if (run_ >= most) break;
      const std::vector<std::size_t> kept =
          Promising((most - run_ + kPasses - pass - 1) / (kPasses - pass));
      if (kept.empty()) break;
      HMANN_RETURN_IF_ERROR(RunFirst(kept, Fate::kKept));
    }
    HMANN_RETURN_IF_ERROR(RunFinalists());
    Choose();
    return std::move(result_);
  }

 private:
  std::vector<std::size_t> Seeds() const {
    std::vector<Dials> grid;
    for (const TriedSetting& tried : result_.settings) grid.push_back(tried.dials);
    std::vector<std::size_t> seeds;
    for (std::size_t family = 0; family < kDialFamilies; ++family) {
      const auto members = std::count_if(
          grid.begin(), grid.end(), [&](const auto& dials) { return DialFamily(dials) == family; });
      std::size_t most = std::clamp<std::size_t>(
          static_cast<std::size_t>(0.085 * static_cast<double>(members)), 8, 30);
      // Rather all of them than a model that does not hold.
      if (family == kThreadedFamily)
        most = static_cast<std::size_t>(0.04 * static_cast<double>(grid.size()));
      const std::vector<std::size_t> cover = CoverFamily(grid, family, most);
      seeds.insert(seeds.end(), cover.begin(), cover.end());
    }
    return seeds;
  }

  /// Alternating rounds over the first queries, so that a disturbance of the machine
  /// meets all settings alike.
  absl::Status RunFirst(const std::vector<std::size_t>& which, Fate fate) {
    const std::uint64_t share = std::max<std::uint64_t>(1, first_queries_ / kRounds);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      for (const std::size_t i : which) {
        double expected_us =
            rounds_[i].empty() ? result_.settings[i].predicted.mean_us : rounds_[i][0].mean_us;
        if (expected_us <= 0) {
          HMANN_ASSIGN_OR_RETURN(const Sample probe, Run(i, 0, std::min(kProbe, share)));
          expected_us = probe.mean_us;
        }
        const auto affordable = static_cast<std::uint64_t>(kRoundUs / std::max(expected_us, 1e-3));
        HMANN_ASSIGN_OR_RETURN(
            Sample sample,
            Run(i, round * share, std::min(share, std::max(kFewestQueries, affordable))));
        rounds_[i].push_back(std::move(sample));
      }
    }
    for (const std::size_t i : which) {
      result_.settings[i].fate = fate;
      result_.settings[i].measured = CombineSamples(rounds_[i]);
    }
    run_ += which.size();
    return absl::OkStatus();
  }

  absl::StatusOr<Sample> Run(std::size_t setting, std::uint64_t first, std::uint64_t count) const {
    if (options_.progress) options_.progress();
    return measure_(result_.settings[setting].dials, first, count);
  }

  void Predict() {
    std::vector<Observation> observations;
    for (const TriedSetting& tried : result_.settings) {
      if (tried.measured.queries > 0) observations.push_back({tried.dials, tried.measured});
    }
    result_.model = WorkModel::Fit(observations, options_.priors);
    result_.paper = PaperModel::Fit(observations, options_.priors);
    for (TriedSetting& tried : result_.settings)
      tried.predicted = result_.model.Predict(tried.dials);
  }

  /// Best time among what was run and reaches `recall`; best recall among what was run
  /// within `latency_us`.
  double BestTime(double recall) const {
    double best = kInfinity;
    for (const TriedSetting& tried : result_.settings) {
      if (tried.measured.queries > 0 && tried.measured.recall >= recall)
        best = std::min(best, tried.measured.mean_us);
    }
    return best;
  }
  double BestRecall(double latency_us) const {
    double best = 0;
    for (const TriedSetting& tried : result_.settings) {
      if (tried.measured.queries > 0 && tried.measured.mean_us <= latency_us)
        best = std::max(best, tried.measured.recall);
    }
    return best;
  }

  /// Chance that a setting that was not run beats, for the target, all that were.
  double ChanceToWin(const TriedSetting& tried, const Target& target, double best) const {
    const double answers = static_cast<double>(first_queries_) * tried.dials.k;
    const double time_error = std::max(result_.model.TimeError(tried.dials), kLeastTimeError);
    const double recall_error = std::max(result_.model.RecallError(tried.dials), kLeastRecallError);
    const double time = target.latency_us > 0 ? target.latency_us : best;
    const double recall = target.latency_us > 0 ? best : target.recall;
    const double below = std::isfinite(time)
                             ? NormalBelow(std::log(time / tried.predicted.mean_us) / time_error)
                             : 1.0;
    const double above =
        NormalBelow((RecallLogit(tried.predicted.recall, answers) - RecallLogit(recall, answers)) /
                    recall_error);
    return below * above;
  }

  /// Up to `most` settings to run next, the likeliest winner of each target in turn.
  std::vector<std::size_t> Promising(std::size_t most) const {
    struct Rival {
      double chance;
      std::size_t setting;
    };
    std::vector<std::vector<Rival>> rivals(targets_.size());
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      const double best = targets_[t].latency_us > 0 ? BestRecall(targets_[t].latency_us)
                                                     : BestTime(targets_[t].recall);
      for (std::size_t i = 0; i < result_.settings.size(); ++i) {
        const TriedSetting& tried = result_.settings[i];
        if (tried.measured.queries > 0) continue;
        const double chance = ChanceToWin(tried, targets_[t], best);
        if (chance >= kWorthARun) rivals[t].push_back({chance, i});
      }
      std::sort(rivals[t].begin(), rivals[t].end(),
                [](const Rival& a, const Rival& b) { return a.chance > b.chance; });
    }
    std::vector<std::size_t> chosen;
    std::vector<bool> taken(result_.settings.size());
    for (std::size_t rank = 0; chosen.size() < most && rank < result_.settings.size(); ++rank) {
      for (std::size_t t = 0; t < targets_.size() && chosen.size() < most; ++t) {
        if (rank >= rivals[t].size() || taken[rivals[t][rank].setting]) continue;
        taken[rivals[t][rank].setting] = true;
        chosen.push_back(rivals[t][rank].setting);
      }
    }
    return chosen;
  }

  /// For each target the fastest few that may meet it, some of them with room for the
  /// lower bound.
  std::vector<std::size_t> Finalists() const {
    std::vector<bool> final(result_.settings.size());
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      const Target& target = targets_[t];
      const std::size_t most = t < options_.targets.size() ? 4 : 2;
      for (const double room : {-1.0, 1.0}) {
        std::vector<std::pair<double, std::size_t>> able;
        for (std::size_t i = 0; i < result_.settings.size(); ++i) {
          const Measurement& measured = result_.settings[i].measured;
          if (measured.queries == 0) continue;
          if (target.latency_us > 0) {
            if (measured.mean_us <= target.latency_us * (1 - 0.05 * room))
              able.push_back({-measured.recall, i});
          } else if (measured.recall >=
                     target.recall + room * options_.z * StandardError(measured)) {
            able.push_back({measured.mean_us, i});
          }
        }
        std::sort(able.begin(), able.end());
        for (std::size_t i = 0; i < std::min(most, able.size()); ++i) final[able[i].second] = true;
      }
    }
    // What is offered where a target cannot be met.
    final[Extreme([](const Measurement& measured) {
      return measured.recall * 1e9 - measured.mean_us;
    })] = true;
    final[Extreme([](const Measurement& measured) { return -measured.mean_us; })] = true;
    std::vector<std::size_t> finalists;
    for (std::size_t i = 0; i < final.size(); ++i) {
      if (final[i]) finalists.push_back(i);
    }
    return finalists;
  }

  double StandardError(const Measurement& measured) const {
    return measured.recall_deviation / std::sqrt(static_cast<double>(options_.queries));
  }

  template <typename Value>
  std::size_t Extreme(const Value& value) const {
    std::size_t best = 0;
    double most = -kInfinity;
    for (std::size_t i = 0; i < result_.settings.size(); ++i) {
      const Measurement& measured = result_.settings[i].measured;
      if (measured.queries == 0 || value(measured) <= most) continue;
      if (most > -kInfinity && measured.mean_us * static_cast<double>(options_.queries) > kFinalUs)
        continue;
      most = value(measured);
      best = i;
    }
    return best;
  }

  /// All queries once, in alternating rounds.
  absl::Status RunFinalists() {
    const std::vector<std::size_t> finalists = Finalists();
    const std::uint64_t rounds = std::clamp<std::uint64_t>(options_.queries / 100, 1, 8);
    std::vector<std::vector<Sample>> samples(finalists.size());
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t first = options_.queries * round / rounds,
                          last = options_.queries * (round + 1) / rounds;
      for (std::size_t i = 0; i < finalists.size(); ++i) {
        HMANN_ASSIGN_OR_RETURN(Sample sample, Run(finalists[i], first, last - first));
        samples[i].push_back(std::move(sample));
      }
    }
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      TriedSetting& tried = result_.settings[finalists[i]];
      tried.fate = Fate::kFinalist;
      tried.measured = CombineSamples(samples[i]);
      tried.recall_low = RecallLowerBound(tried.measured, options_.z);
    }
    finalists_ = finalists;
    return absl::OkStatus();
  }

  void Choose() {
    std::vector<Offer> offers;
    for (const std::size_t i : finalists_) {
      const TriedSetting& tried = result_.settings[i];
      offers.push_back({tried.measured.mean_us, tried.measured.recall, tried.recall_low});
    }
    for (const std::size_t place : OfferFront(offers)) result_.front.push_back(finalists_[place]);
    for (const Target& target : options_.targets) {
      const BestOffer best = ChooseOffer(offers, target);
      result_.choices.push_back({target, finalists_[best.place], best.met});
    }
  }

  const Measure& measure_;
  const TunerOptions& options_;
  std::vector<Target> targets_;  ///< the user's, then those that are followed
  std::vector<std::vector<Sample>> rounds_;
  std::uint64_t first_queries_ = 0;
  std::size_t run_ = 0;
  std::vector<std::size_t> finalists_;
  Tuned result_;
};

}  // namespace

Measurement CombineSamples(const std::vector<Sample>& rounds) {
  Measurement all;
  std::vector<float> recalls;
  std::vector<double> mean, p95, p99;
  std::uint64_t counted = 0;
  for (const Sample& sample : rounds) {
    recalls.insert(recalls.end(), sample.recalls.begin(), sample.recalls.end());
    mean.push_back(sample.mean_us);
    p95.push_back(sample.p95_us);
    p99.push_back(sample.p99_us);
    all.counters += sample.counters;
    counted += sample.counted;
  }
  all.queries = recalls.size();
  all.counted = counted;
  const auto n = static_cast<double>(recalls.size());
  for (const float recall : recalls) all.recall += static_cast<double>(recall) / n;
  for (const float recall : recalls)
    all.recall_deviation += std::pow(static_cast<double>(recall) - all.recall, 2) / n;
  all.recall_deviation = std::sqrt(all.recall_deviation);
  std::sort(recalls.begin(), recalls.end());
  all.recall_p05 = static_cast<double>(Percentile(recalls, 0.05));
  all.mean_us = Median(mean);
  all.p95_us = Median(p95);
  all.p99_us = Median(p99);
  return all;
}

double RecallLowerBound(const Measurement& measured, double z) {
  const auto n = static_cast<double>(measured.queries);
  // The variance with one more query, half a recall worse than the mean.
  const double variance = measured.recall_deviation * measured.recall_deviation * n / (n + 1) +
                          0.25 * n / ((n + 1) * (n + 1));
  return std::max(0.0, measured.recall - z * std::sqrt(variance / (n + 1)));
}

absl::StatusOr<Tuned> TuneDials(const std::vector<Dials>& grid, const Measure& measure,
                                const TunerOptions& options) {
  if (options.queries == 0)
    return absl::InvalidArgumentError("learning queries: expected at least 1, found 0");
  if (grid.empty()) return absl::InvalidArgumentError("the grid of dials is empty");
  for (const Target& target : options.targets) {
    if (!(target.recall >= 0 && target.recall <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("recall: expected a target in (0, 1], found ", target.recall));
    }
    if (!(target.latency_us >= 0) || target.recall + target.latency_us == 0) {
      return absl::InvalidArgumentError("a target needs a recall or a latency");
    }
  }
  return Tuner(grid, measure, options).Run();
}

}  // namespace hmann
