#include "index/tune/tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hmann/target.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/params/ef_scale.h"
#include "index/tune/ef_scale_curve.h"
#include "index/tune/ladder.h"

namespace hmann {
namespace {

/// Standard errors between a mean recall and its lower bound: one-sided 95 %.
constexpr double kRecallZ = 1.645;
/// Duration of a round of one setting, microseconds.
constexpr double kRoundUs = 6e3;

/// The number of queries of a setting per round.
std::uint64_t QueriesOfRound(double us, double round_us) {
  return static_cast<std::uint64_t>(std::clamp(round_us / std::max(us, 0.1), 4.0, 400.0));
}

/// A setting, and the recall and work of all learning queries, or some of them, at it.
struct Brought {
  ResolvedParams params{};
  Counted counted{};
};

/// Even, as kRounds.
constexpr std::size_t kFinalRounds = 6;

double MedianOf(const std::vector<Timed>& rounds, double Timed::*time) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const Timed& timed : rounds) values.push_back(timed.*time);
  return Median(values);
}

/// Times each setting in rounds, every other one backwards.
absl::StatusOr<std::vector<std::vector<Timed>>> TimeInTurns(const TuningRuns& runs,
                                                            const std::vector<Brought>& settings,
                                                            std::uint64_t query,
                                                            const Equation31& equation) {
  std::vector<std::vector<Timed>> rounds(settings.size());
  for (std::size_t round = 0; round < kFinalRounds; ++round) {
    for (std::size_t place = 0; place < settings.size(); ++place) {
      const std::size_t i = round % 2 == 0 ? place : settings.size() - 1 - place;
      const double us = round == 0 ? equation.PredictUs(settings[i].params, settings[i].counted)
                                   : rounds[i].back().mean_us;
      HMANN_ASSIGN_OR_RETURN(rounds[i].emplace_back(), runs.time(settings[i].params, query,
                                                                 QueriesOfRound(us, 2 * kRoundUs)));
    }
    query += QueriesOfRound(rounds[0].back().mean_us, 2 * kRoundUs);
  }
  return rounds;
}

/// Times all of `brought` in alternating rounds, from learning query `first_query` on.
/// Keeps in `tuned` those that no other beats. The one near the default recall is timed
/// twice, for Tuned::same_again. Errors: those of the runs.
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
    timed.push_back({brought[i].params, counted.recall, RecallLowerBound(counted, kRecallZ),
                     counted.recall_p05, MedianOf(rounds[i], &Timed::mean_us),
                     MedianOf(rounds[i], &Timed::p95_us), MedianOf(rounds[i], &Timed::p99_us)});
    offers.push_back({timed.back().mean_us, timed.back().recall, timed.back().recall_low});
  }
  tuned.same_again = MedianOf(rounds.back(), &Timed::mean_us) /
                     timed[static_cast<std::size_t>(again - brought.begin())].mean_us;
  for (const std::size_t i : OfferFront(offers)) tuned.front.push_back(timed[i]);
  return absl::OkStatus();
}

constexpr double kFollowed[] = {0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995};
/// A setting that Equation 3.1 predicts to be slower than the best by this factor is not
/// compared, if the equation errs by kTrusted at most (the median over all settings, each
/// timed once). If it errs more, these times decide. Both are guesses; each comparison
/// reports the equation's errors.
constexpr double kDropped = 1.6, kTrusted = 0.25;
/// A winner is brought above its recall by this share of the misses, because other
/// queries may be a little harder. A guess.
constexpr double kAbove = 0.01;
/// A neighboring setting is better if it takes less than this share of the time: a guess.
constexpr double kBetter = 0.985;
/// Even, because every other round runs backwards: the first setting in a round finds
/// colder CPU caches.
constexpr std::size_t kRounds = 4;

class Tuner {
 public:
  Tuner(const TuningRuns& runs, const TunerOptions& options)
      : runs_(runs), options_(options), tuned_{.equation = Equation31(options.context.block_tier)} {
    // With more neighbors, fewer queries are as precise.
    const std::uint64_t enough = options.k == 1 ? 1000 : options.k < 100 ? 500 : 200;
    first_queries_ = std::min(options.queries, enough);
    // Enough to separate settings that differ by a factor of 1.6: a guess.
    rough_queries_ = std::min(options.queries, enough / 4);
    for (const ResolvedParams& way :
         WaysToSearch(options.k, options.context, options.most_query_threads))
      AddWay(way);
  }

  absl::StatusOr<Tuned> Run() {
    HMANN_RETURN_IF_ERROR(LearnEquation());
    std::vector<std::size_t> winners;
    for (const double recall : options_.recalls) {
      HMANN_ASSIGN_OR_RETURN(winners.emplace_back(), Hold(recall));
    }
    HMANN_RETURN_IF_ERROR(MakeFront(winners));
    return std::move(tuned_);
  }

 private:
  struct Way {
    ResolvedParams at_one;
    std::unique_ptr<EfScaleCurve> rough, curve;  ///< over a few queries, and over the first queries
    bool far_behind = false;                     ///< in a comparison for another recall
  };
  /// A setting at the ef_scale that reaches a recall.
  struct Baseline {
    std::size_t way = 0;
    double ef_scale = 1;
    ResolvedParams params{};
    Counted counted{};
    double predicted_us = 0;
    std::vector<double> us{};  ///< one per round

    double median_us() const { return Median(us); }
  };

  std::size_t AddWay(const ResolvedParams& at_one) {
    const auto same = [&](const Way& way) { return way.at_one == at_one; };
    const auto found = std::find_if(ways_.begin(), ways_.end(), same);
    if (found != ways_.end()) return static_cast<std::size_t>(found - ways_.begin());
    ways_.push_back({at_one, CurveOf(at_one, rough_queries_), CurveOf(at_one, first_queries_)});
    return ways_.size() - 1;
  }

  std::unique_ptr<EfScaleCurve> CurveOf(const ResolvedParams& at_one, std::uint64_t queries) const {
    const auto run = [this, at_one, queries](double ef_scale) -> absl::StatusOr<Counted> {
      if (options_.progress) options_.progress();
      return runs_.count(At(at_one, ef_scale), queries);
    };
    return std::make_unique<EfScaleCurve>(run, static_cast<double>(queries * options_.k));
  }

  ResolvedParams At(const ResolvedParams& at_one, double ef_scale) const {
    return WithEfScale(at_one, ef_scale, options_.context.n, options_.context.n1);
  }

  absl::StatusOr<double> TimeOnce(const ResolvedParams& params, std::uint64_t queries) {
    if (options_.progress) options_.progress();
    HMANN_ASSIGN_OR_RETURN(const Timed timed, runs_.time(params, next_query_, queries));
    return timed.mean_us;
  }

  /// Learns the constants from a setting of each kind, the first of its mode, at ef_scale
  /// 1.
  absl::Status LearnEquation() {
    std::map<std::pair<SearchMode, bool>, bool> seen;
    for (const SearchMode mode : {SearchMode::kUpper, SearchMode::kGraph, SearchMode::kQuantized}) {
      for (const Way& way : ways_) {
        bool& known = seen[{mode, way.at_one.nprobe > 0}];
        if (way.at_one.mode != mode || known) continue;
        known = true;
        std::vector<double> us;
        HMANN_ASSIGN_OR_RETURN(const double once, TimeOnce(way.at_one, 4));
        for (std::size_t round = 0; round < kRounds; ++round) {
          const std::uint64_t queries = QueriesOfRound(once, kRoundUs);
          HMANN_ASSIGN_OR_RETURN(us.emplace_back(), TimeOnce(way.at_one, queries));
          next_query_ += queries;
        }
        HMANN_ASSIGN_OR_RETURN(const Counted counted, runs_.count(way.at_one, rough_queries_));
        tuned_.equation.Learn(way.at_one, counted, Median(us));
      }
    }
    return absl::OkStatus();
  }

  std::optional<Baseline> At(std::size_t way,
                             const std::optional<EfScaleCurve::Point>& point) const {
    if (!point.has_value()) return std::nullopt;
    Baseline baseline{.way = way, .ef_scale = point->ef_scale, .counted = point->counted};
    baseline.params = At(ways_[way].at_one, point->ef_scale);
    baseline.predicted_us = tuned_.equation.PredictUs(baseline.params, baseline.counted);
    return baseline;
  }

  /// Brings `way` roughly to `recall`; nullopt if it cannot reach it.
  absl::StatusOr<std::optional<Baseline>> BringNear(std::size_t way, double recall) {
    HMANN_ASSIGN_OR_RETURN(const auto point, ways_[way].rough->Reach(recall, 0.2 * (1 - recall)));
    return At(way, point);
  }

  /// The same on the first queries, precisely.
  absl::StatusOr<std::optional<Baseline>> Bring(std::size_t way, double recall, double guess = 0) {
    HMANN_ASSIGN_OR_RETURN(const auto point,
                           ways_[way].curve->Reach(recall, 0.03 * (1 - recall), guess));
    return At(way, point);
  }

  static std::vector<Baseline*> AddressesOf(std::vector<Baseline>& baselines) {
    std::vector<Baseline*> addresses(baselines.size());
    std::iota(addresses.begin(), addresses.end(), baselines.data());
    return addresses;
  }

  /// Times `rounds` rounds with the baselines in turn, each on the same queries.
  absl::Status Time(std::span<Baseline*> baselines, std::size_t rounds, double round_us) {
    double us = 0;
    for (const Baseline* baseline : baselines) {
      us = std::max(us, baseline->us.empty() ? baseline->predicted_us : baseline->us.back());
    }
    const std::uint64_t queries = QueriesOfRound(us, round_us);
    for (Baseline* baseline : baselines) baseline->us.clear();
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < baselines.size(); ++i) {
        Baseline& baseline = *baselines[round % 2 == 0 ? i : baselines.size() - 1 - i];
        HMANN_ASSIGN_OR_RETURN(baseline.us.emplace_back(), TimeOnce(baseline.params, queries));
      }
      next_query_ += queries;
    }
    return absl::OkStatus();
  }

  /// Returns the number of the fastest setting for a recall. If none reaches it, the one
  /// that comes nearest.
  absl::StatusOr<std::size_t> Hold(double recall) {
    Comparison comparison{.recall = recall};
    std::vector<Baseline> baselines;
    HMANN_RETURN_IF_ERROR(Enter(recall, comparison, baselines));
    if (baselines.empty()) {
      tuned_.comparisons.push_back(comparison);
      return Nearest();
    }
    std::vector<Baseline*> alive = AddressesOf(baselines);
    for (double round_us = kRoundUs; alive.size() > 1; round_us *= 2) {
      HMANN_RETURN_IF_ERROR(Time(alive, kRounds, round_us));
      std::sort(alive.begin(), alive.end(), [](const Baseline* a, const Baseline* b) {
        return a->median_us() < b->median_us();
      });
      if (alive.size() <= 3) break;
      alive.resize((alive.size() + 1) / 2);
    }
    Baseline best = *alive.front();
    HMANN_RETURN_IF_ERROR(Climb(recall, best, comparison));
    tuned_.comparisons.push_back(comparison);
    return best.way;
  }

  /// Brings every setting to the recall, and keeps those that are not far from the best.
  absl::Status Enter(double recall, Comparison& comparison, std::vector<Baseline>& baselines) {
    std::vector<Baseline> able;
    std::vector<double> once, errors;
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      if (ways_[way].far_behind) {
        ++comparison.dropped;
        continue;
      }
      HMANN_ASSIGN_OR_RETURN(std::optional<Baseline> baseline, BringNear(way, recall));
      if (!baseline.has_value()) {
        ++comparison.unable;
        continue;
      }
      able.push_back(*std::move(baseline));
      const Baseline& added = able.back();
      HMANN_ASSIGN_OR_RETURN(once.emplace_back(),
                             TimeOnce(added.params, QueriesOfRound(added.predicted_us, kRoundUs)));
      errors.push_back(std::abs(added.predicted_us / once.back() - 1));
    }
    comparison.settings = able.size() + comparison.dropped;
    comparison.upper_dropped = true;
    if (able.empty()) return absl::OkStatus();
    comparison.equation_error = Median(std::move(errors));
    if (comparison.equation_error <= kTrusted) {
      for (std::size_t i = 0; i < able.size(); ++i) once[i] = able[i].predicted_us;
    }
    const double least = *std::min_element(once.begin(), once.end());
    for (std::size_t i = 0; i < able.size(); ++i) {
      const Baseline& baseline = able[i];
      const bool is_untuned = baseline.way == 0;  // tuning must not end behind it
      if (once[i] > kDropped * least && !is_untuned) {
        ++comparison.dropped;
        ways_[baseline.way].far_behind = once[i] > kDropped * kDropped * least;
        continue;
      }
      HMANN_ASSIGN_OR_RETURN(const auto closer, Bring(baseline.way, recall, baseline.ef_scale));
      baselines.push_back(closer.value_or(baseline));
      if (baseline.params.mode == SearchMode::kUpper) comparison.upper_dropped = false;
    }
    return absl::OkStatus();
  }

  /// Tries the neighbors of the best setting until none is faster.
  absl::Status Climb(double recall, Baseline& best, Comparison& comparison) {
    constexpr int kPasses = 3;
    for (int pass = 0; pass < kPasses; ++pass) {
      std::vector<Baseline> baselines = {best};
      for (const ResolvedParams& next : NextTo(ways_[best.way].at_one, options_.context)) {
        const std::size_t way = AddWay(next);
        if (!tried_.insert({recall, way}).second) continue;
        HMANN_ASSIGN_OR_RETURN(std::optional<Baseline> baseline, Bring(way, recall, best.ef_scale));
        if (!baseline.has_value()) continue;
        baselines.push_back(*std::move(baseline));
      }
      if (baselines.size() == 1) return absl::OkStatus();
      comparison.neighbors += baselines.size() - 1;
      std::vector<Baseline*> all = AddressesOf(baselines);
      HMANN_RETURN_IF_ERROR(Time(all, kRounds, kRoundUs));
      Baseline* fastest = *std::min_element(
          all.begin() + 1, all.end(),
          [](const Baseline* a, const Baseline* b) { return a->median_us() < b->median_us(); });
      if (fastest->median_us() > kBetter * baselines.front().median_us()) return absl::OkStatus();
      // The fastest of several was probably lucky, so time it again by itself.
      Baseline* pair[] = {&baselines.front(), fastest};
      HMANN_RETURN_IF_ERROR(Time(pair, kRounds + 2, 2 * kRoundUs));
      if (fastest->median_us() > kBetter * baselines.front().median_us()) return absl::OkStatus();
      best = *fastest;
    }
    return absl::OkStatus();
  }

  /// The setting with the highest recall.
  std::size_t Nearest() const {
    const auto most = [](const Way& way) {
      return way.rough->points().empty() ? 0 : way.rough->points().back().counted.recall;
    };
    const auto found = std::max_element(
        ways_.begin(), ways_.end(), [&](const Way& a, const Way& b) { return most(a) < most(b); });
    return static_cast<std::size_t>(found - ways_.begin());
  }

  /// Brings a setting to a recall, or as near as it comes, on all learning queries or
  /// some of them. It may find up to `share` of the misses beyond the recall.
  absl::StatusOr<Brought> Finish(std::size_t way, double recall, std::uint64_t queries,
                                 double share) {
    const std::unique_ptr<EfScaleCurve> curve = CurveOf(ways_[way].at_one, queries);
    HMANN_ASSIGN_OR_RETURN(const auto near, ways_[way].curve->Reach(recall, 0.2 * (1 - recall)));
    std::optional<EfScaleCurve::Point> point;
    const double least = recall - RecallSlack(recall);
    double wanted = recall + kAbove * (1 - recall), guess = near.has_value() ? near->ef_scale : 0;
    // With few queries the lower bound decides. It lies farther below the mean the lower
    // the mean is, so this takes some passes.
    constexpr int kPasses = 4;
    for (int pass = 0; pass < kPasses; ++pass) {
      HMANN_ASSIGN_OR_RETURN(const auto reached, curve->Reach(wanted, share * (1 - recall), guess));
      if (!reached.has_value()) break;
      point = reached;
      const double low = RecallLowerBound(point->counted, kRecallZ);
      if (low >= least) break;
      wanted = least + 1.02 * (point->counted.recall - low);
    }
    const EfScaleCurve::Point& found = point.has_value() ? *point : curve->points().back();
    return Brought{At(ways_[way].at_one, found.ef_scale), found.counted};
  }

  absl::Status MakeFront(const std::vector<std::size_t>& winners) {
    std::vector<Brought> brought;
    for (std::size_t i = 0; i < winners.size(); ++i) {
      HMANN_ASSIGN_OR_RETURN(brought.emplace_back(),
                             Finish(winners[i], options_.recalls[i], options_.queries, 0.02));
    }
    // no query has been run yet
    const std::uint64_t some = std::min(options_.queries, 4 * first_queries_);
    for (const double recall : kFollowed) {
      std::size_t nearest = 0;
      const auto away = [&](std::size_t i) {
        return std::abs(Logit(options_.recalls[i], 1e6) - Logit(recall, 1e6));
      };
      for (std::size_t i = 1; i < winners.size(); ++i)
        nearest = away(i) < away(nearest) ? i : nearest;
      if (away(nearest) < 0.1) continue;
      HMANN_ASSIGN_OR_RETURN(brought.emplace_back(), Finish(winners[nearest], recall, some, 0.1));
    }
    return TimeFront(runs_, brought, next_query_, tuned_);
  }

  const TuningRuns& runs_;
  const TunerOptions& options_;
  std::uint64_t rough_queries_ = 0, first_queries_ = 0, next_query_ = 0;
  std::vector<Way> ways_;
  std::set<std::pair<double, std::size_t>> tried_;
  Tuned tuned_;
};

}  // namespace

absl::StatusOr<Tuned> TuneParams(const TuningRuns& runs, const TunerOptions& options) {
  if (options.queries == 0)
    return InvalidArgument("learning queries: expected at least 1, found 0");
  if (options.recalls.empty())
    return InvalidArgument("recall: expected at least one to tune for, found none");
  for (const double recall : options.recalls) {
    if (!(recall > 0 && recall <= 1))
      return InvalidArgument("recall: expected a target in (0, 1], found ", recall);
  }
  return Tuner(runs, options).Run();
}

}  // namespace hmann
