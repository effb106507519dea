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
#include "index/dials/effort.h"
#include "index/tune/effort_curve.h"
#include "index/tune/ladder.h"

namespace hmann {
namespace {

/// Standard errors between a mean recall and its lower bound: one-sided 95 %.
constexpr double kRecallZ = 1.645;
/// Of a round of one setting, microseconds.
constexpr double kRoundUs = 6e3;

/// How many queries of a setting a round takes.
std::uint64_t QueriesOfRound(double us, double round_us) {
  return static_cast<std::uint64_t>(std::clamp(round_us / std::max(us, 0.1), 4.0, 400.0));
}

/// A setting with what all learning queries, or some of them, found at it.
struct Brought {
  Dials dials{};
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

/// Times all of `brought` in alternating rounds, from learning query `first_query` on,
/// and keeps in `tuned` those that no other beats; the one near the default recall is
/// timed twice, for Tuned::same_again. Errors: those of the runs.
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

constexpr double kFollowed[] = {0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995};
/// A way that Equation 3.1 puts so far behind the best is not timed: a guess, beside
/// errors of the equation that each contest tells.
constexpr double kDropped = 1.6;
/// A winner is brought so far above its recall, as a share of the misses: other queries
/// may be a little harder. A guess.
constexpr double kAbove = 0.01;
/// A neighbour is better if it takes less than this share of the time: a guess.
constexpr double kBetter = 0.985;
/// Even, since every other one runs backwards: whoever comes first in a round finds the
/// CPU's caches colder.
constexpr std::size_t kRounds = 4;

class Tuner {
 public:
  Tuner(const TuningRuns& runs, const TunerOptions& options)
      : runs_(runs), options_(options), tuned_{.equation = Equation31(options.context.block_tier)} {
    // Of more neighbours fewer queries say as much.
    const std::uint64_t enough = options.k == 1 ? 1000 : options.k < 100 ? 500 : 200;
    first_queries_ = std::min(options.queries, enough);
    // Enough to tell ways that are 1.6 times apart: a guess.
    rough_queries_ = std::min(options.queries, enough / 4);
    for (const Dials& way : WaysToSearch(options.k, options.context, options.most_query_threads))
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
    Dials at_one;
    std::unique_ptr<EffortCurve> rough, curve;  ///< over a few and over the first queries
    bool far_behind = false;                    ///< in a contest for another recall
  };
  /// A way at the effort that reaches a recall.
  struct Rival {
    std::size_t way = 0;
    double effort = 1;
    Dials dials{};
    Counted counted{};
    double predicted_us = 0;
    std::vector<double> us{};  ///< of the rounds

    double median_us() const { return Median(us); }
  };

  std::size_t AddWay(const Dials& at_one) {
    const auto same = [&](const Way& way) { return way.at_one == at_one; };
    const auto found = std::find_if(ways_.begin(), ways_.end(), same);
    if (found != ways_.end()) return static_cast<std::size_t>(found - ways_.begin());
    ways_.push_back({at_one, CurveOf(at_one, rough_queries_), CurveOf(at_one, first_queries_)});
    return ways_.size() - 1;
  }

  std::unique_ptr<EffortCurve> CurveOf(const Dials& at_one, std::uint64_t queries) const {
    const auto run = [this, at_one, queries](double effort) -> absl::StatusOr<Counted> {
      if (options_.progress) options_.progress();
      return runs_.count(At(at_one, effort), queries);
    };
    return std::make_unique<EffortCurve>(run, static_cast<double>(queries * options_.k));
  }

  Dials At(const Dials& at_one, double effort) const {
    return WithEffort(at_one, effort, options_.context.n, options_.context.n1);
  }

  absl::StatusOr<double> TimeOnce(const Dials& dials, std::uint64_t queries) {
    if (options_.progress) options_.progress();
    HMANN_ASSIGN_OR_RETURN(const Timed timed, runs_.time(dials, next_query_, queries));
    return timed.mean_us;
  }

  /// Constants by a setting of each kind, the first of its walk, at effort 1.
  absl::Status LearnEquation() {
    std::map<std::pair<WalkKind, bool>, bool> seen;
    for (const WalkKind walk : {WalkKind::kUpper, WalkKind::kBestFirst, WalkKind::kQuantised}) {
      for (const Way& way : ways_) {
        bool& known = seen[{walk, way.at_one.nprobe > 0}];
        if (way.at_one.walk != walk || known) continue;
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

  std::optional<Rival> At(std::size_t way, const std::optional<EffortCurve::Point>& point) const {
    if (!point.has_value()) return std::nullopt;
    Rival rival{.way = way, .effort = point->effort, .counted = point->counted};
    rival.dials = At(ways_[way].at_one, point->effort);
    rival.predicted_us = tuned_.equation.PredictUs(rival.dials, rival.counted);
    return rival;
  }

  /// `way` at `recall`, roughly; nothing where it does not reach it.
  absl::StatusOr<std::optional<Rival>> BringNear(std::size_t way, double recall) {
    HMANN_ASSIGN_OR_RETURN(const auto point, ways_[way].rough->Reach(recall, 0.2 * (1 - recall)));
    return At(way, point);
  }

  /// The same on the first queries, closely.
  absl::StatusOr<std::optional<Rival>> Bring(std::size_t way, double recall, double guess = 0) {
    HMANN_ASSIGN_OR_RETURN(const auto point,
                           ways_[way].curve->Reach(recall, 0.03 * (1 - recall), guess));
    return At(way, point);
  }

  static std::vector<Rival*> AddressesOf(std::vector<Rival>& rivals) {
    std::vector<Rival*> addresses(rivals.size());
    std::iota(addresses.begin(), addresses.end(), rivals.data());
    return addresses;
  }

  /// As many rounds, the rivals in turns, each of the same queries.
  absl::Status Time(std::span<Rival*> rivals, std::size_t rounds, double round_us) {
    double us = 0;
    for (const Rival* rival : rivals) {
      us = std::max(us, rival->us.empty() ? rival->predicted_us : rival->us.back());
    }
    const std::uint64_t queries = QueriesOfRound(us, round_us);
    for (Rival* rival : rivals) rival->us.clear();
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < rivals.size(); ++i) {
        Rival& rival = *rivals[round % 2 == 0 ? i : rivals.size() - 1 - i];
        HMANN_ASSIGN_OR_RETURN(rival.us.emplace_back(), TimeOnce(rival.dials, queries));
      }
      next_query_ += queries;
    }
    return absl::OkStatus();
  }

  /// The fastest way to a recall: its number. Where none reaches it, the one that comes
  /// nearest.
  absl::StatusOr<std::size_t> Hold(double recall) {
    Contest contest{.recall = recall};
    std::vector<Rival> rivals;
    HMANN_RETURN_IF_ERROR(Enter(recall, contest, rivals));
    if (rivals.empty()) {
      tuned_.contests.push_back(contest);
      return Nearest();
    }
    std::vector<Rival*> alive = AddressesOf(rivals);
    std::vector<double> errors;
    for (double round_us = kRoundUs; alive.size() > 1; round_us *= 2) {
      HMANN_RETURN_IF_ERROR(Time(alive, kRounds, round_us));
      std::sort(alive.begin(), alive.end(),
                [](const Rival* a, const Rival* b) { return a->median_us() < b->median_us(); });
      if (round_us == kRoundUs) {
        for (const Rival* rival : alive)
          errors.push_back(std::abs(rival->predicted_us / rival->median_us() - 1));
      }
      if (alive.size() <= 3) break;
      alive.resize((alive.size() + 1) / 2);
    }
    contest.equation_error = errors.empty() ? 0 : Median(std::move(errors));
    Rival best = *alive.front();
    HMANN_RETURN_IF_ERROR(Climb(recall, best, contest));
    tuned_.contests.push_back(contest);
    return best.way;
  }

  /// Brings every way to the recall, and leaves those that Equation 3.1 does not drop.
  absl::Status Enter(double recall, Contest& contest, std::vector<Rival>& rivals) {
    double least = std::numeric_limits<double>::infinity();
    std::vector<Rival> able;
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      if (ways_[way].far_behind) {
        ++contest.dropped;
        continue;
      }
      HMANN_ASSIGN_OR_RETURN(std::optional<Rival> rival, BringNear(way, recall));
      if (!rival.has_value()) {
        ++contest.unable;
        continue;
      }
      least = std::min(least, rival->predicted_us);
      able.push_back(*std::move(rival));
    }
    contest.settings = able.size() + contest.dropped;
    contest.upper_dropped = true;
    for (const Rival& rival : able) {
      if (rival.predicted_us > kDropped * least) {
        ++contest.dropped;
        ways_[rival.way].far_behind = rival.predicted_us > kDropped * kDropped * least;
        continue;
      }
      HMANN_ASSIGN_OR_RETURN(const auto closer, Bring(rival.way, recall, rival.effort));
      rivals.push_back(closer.value_or(rival));
      if (rival.dials.walk == WalkKind::kUpper) contest.upper_dropped = false;
    }
    return absl::OkStatus();
  }

  /// Tries what lies next to the best way, until nothing there is faster.
  absl::Status Climb(double recall, Rival& best, Contest& contest) {
    constexpr int kPasses = 3;
    for (int pass = 0; pass < kPasses; ++pass) {
      std::vector<Rival> rivals = {best};
      for (const Dials& next : NextTo(ways_[best.way].at_one, options_.context)) {
        const std::size_t way = AddWay(next);
        if (!tried_.insert({recall, way}).second) continue;
        HMANN_ASSIGN_OR_RETURN(std::optional<Rival> rival, Bring(way, recall, best.effort));
        if (!rival.has_value() || rival->predicted_us > kDropped * best.predicted_us) continue;
        rivals.push_back(*std::move(rival));
      }
      if (rivals.size() == 1) return absl::OkStatus();
      contest.neighbours += rivals.size() - 1;
      std::vector<Rival*> all = AddressesOf(rivals);
      HMANN_RETURN_IF_ERROR(Time(all, kRounds, kRoundUs));
      Rival* fastest = *std::min_element(
          all.begin() + 1, all.end(),
          [](const Rival* a, const Rival* b) { return a->median_us() < b->median_us(); });
      if (fastest->median_us() > kBetter * rivals.front().median_us()) return absl::OkStatus();
      // Of several the fastest is likely one that was lucky: once more, by itself.
      Rival* pair[] = {&rivals.front(), fastest};
      HMANN_RETURN_IF_ERROR(Time(pair, kRounds + 2, 2 * kRoundUs));
      if (fastest->median_us() > kBetter * rivals.front().median_us()) return absl::OkStatus();
      best = *fastest;
    }
    return absl::OkStatus();
  }

  /// The way that found most.
  std::size_t Nearest() const {
    const auto most = [](const Way& way) {
      return way.rough->points().empty() ? 0 : way.rough->points().back().counted.recall;
    };
    const auto found = std::max_element(
        ways_.begin(), ways_.end(), [&](const Way& a, const Way& b) { return most(a) < most(b); });
    return static_cast<std::size_t>(found - ways_.begin());
  }

  /// A way on all learning queries, or on some of them, at a recall, or as near as it
  /// comes. Of the misses `share` may be found beyond.
  absl::StatusOr<Brought> Finish(std::size_t way, double recall, std::uint64_t queries,
                                 double share) {
    const std::unique_ptr<EffortCurve> curve = CurveOf(ways_[way].at_one, queries);
    HMANN_ASSIGN_OR_RETURN(const auto near, ways_[way].curve->Reach(recall, 0.2 * (1 - recall)));
    std::optional<EffortCurve::Point> point;
    const double least = recall - RecallSlack(recall);
    double wanted = recall + kAbove * (1 - recall), guess = near.has_value() ? near->effort : 0;
    // Of few queries the bound decides, which lies the farther below the mean, the lower
    // that is: some passes.
    constexpr int kPasses = 4;
    for (int pass = 0; pass < kPasses; ++pass) {
      HMANN_ASSIGN_OR_RETURN(const auto reached, curve->Reach(wanted, share * (1 - recall), guess));
      if (!reached.has_value()) break;
      point = reached;
      const double low = RecallLowerBound(point->counted, kRecallZ);
      if (low >= least) break;
      wanted = least + 1.02 * (point->counted.recall - low);
    }
    const EffortCurve::Point& found = point.has_value() ? *point : curve->points().back();
    return Brought{At(ways_[way].at_one, found.effort), found.counted};
  }

  absl::Status MakeFront(const std::vector<std::size_t>& winners) {
    std::vector<Brought> brought;
    for (std::size_t i = 0; i < winners.size(); ++i) {
      HMANN_ASSIGN_OR_RETURN(brought.emplace_back(),
                             Finish(winners[i], options_.recalls[i], options_.queries, 0.02));
    }
    const std::uint64_t some = std::min(options_.queries, 4 * first_queries_);  // nobody asked yet
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

absl::StatusOr<Tuned> TuneDials(const TuningRuns& runs, const TunerOptions& options) {
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
