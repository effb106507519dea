#include "index/tune/ef_scale_curve.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/params/ef_scale.h"

namespace hmann {

absl::Status EfScaleCurve::At(double ef_scale) {
  const auto place = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& point) { return point.ef_scale >= ef_scale; });
  if (place != points_.end() && place->ef_scale == ef_scale) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const Counted counted, run_(ef_scale));
  points_.insert(place, {ef_scale, counted});
  return absl::OkStatus();
}

const EfScaleCurve::Point* EfScaleCurve::Lowest(double recall) const {
  for (const Point& point : points_) {
    if (point.counted.recall >= recall) return &point;
  }
  return nullptr;
}

const EfScaleCurve::Point* EfScaleCurve::Highest(double recall) const {
  const Point* highest = nullptr;
  for (const Point& point : points_) {
    if (point.counted.recall >= recall) break;
    highest = &point;
  }
  return highest;
}

/// Between two points it interpolates linearly: the logarithm of ef_scale over the log
/// odds of recall. Beyond them it uses the usual slope.
double EfScaleCurve::Guess(double recall, double guess) const {
  const Point *above = Lowest(recall), *below = Highest(recall);
  if (above == nullptr && below == nullptr) return guess > 0 ? guess : 1;
  const double wanted = Logit(recall, answers_);
  if (above != nullptr && below != nullptr) {
    const double low = Logit(below->counted.recall, answers_),
                 high = Logit(above->counted.recall, answers_);
    // Aims a little above: a point below the target would be useless.
    const double share =
        high > low ? std::clamp((wanted - low) / (high - low) + 0.02, 0.1, 0.9) : 0.5;
    return below->ef_scale * std::pow(above->ef_scale / below->ef_scale, share);
  }
  // Measured on SIFT and words; for other data a guess, which costs another run and no
  // accuracy.
  constexpr double kEfScaleALogit = 1.8, kMostStep = 4;
  const Point& nearest = above != nullptr ? *above : *below;
  const double step = std::pow(kEfScaleALogit, wanted - Logit(nearest.counted.recall, answers_));
  return above != nullptr ? nearest.ef_scale * std::clamp(0.95 * step, 1 / kMostStep, 0.9)
                          : nearest.ef_scale * std::clamp(1.05 * step, 1.2, kMostStep);
}

/// Whether the last increase of ef_scale by half found at most a tenth of the missing
/// share. Continuing would cost more than everything before, and not reach the target.
/// Both shares are guesses.
bool EfScaleCurve::Saturated(double recall) const {
  const Point& last = points_.back();
  for (auto point = points_.rbegin(); point != points_.rend(); ++point) {
    if (point->ef_scale > last.ef_scale / 1.5) continue;
    return last.counted.recall - point->counted.recall < 0.1 * (recall - last.counted.recall);
  }
  return false;
}

absl::StatusOr<std::optional<EfScaleCurve::Point>> EfScaleCurve::Reach(double recall,
                                                                       double tolerance,
                                                                       double guess,
                                                                       bool brackets) {
  constexpr int kMostRuns = 12, kMostForBelow = 2;  // guesses
  int for_below = 0;
  constexpr double kAsClose = 1.01;  // ratio of two ef_scales with no relevant setting between them
  for (int runs = 0; runs < kMostRuns; ++runs) {
    const Point *above = Lowest(recall), *below = Highest(recall);
    const bool is_close = above != nullptr && above->counted.recall < recall + tolerance,
               lacks_one =
                   brackets && below != nullptr && below->counted.recall <= recall - tolerance;
    if (is_close && (!lacks_one || for_below++ == kMostForBelow)) break;
    if (above != nullptr && (below != nullptr ? above->ef_scale < kAsClose * below->ef_scale
                                              : above->ef_scale <= least_))
      break;
    if (above == nullptr && below != nullptr &&
        (below->ef_scale >= kMost || Saturated(recall) || below->counted.Work() >= scan_))
      break;
    const double wanted = is_close ? recall - tolerance / 2 : recall;
    const double ef_scale = std::clamp(Guess(wanted, guess), least_, kMost);
    HMANN_RETURN_IF_ERROR(At(ef_scale));
  }
  const Point* found = Lowest(recall);
  return found != nullptr ? std::optional<Point>(*found) : std::nullopt;
}

namespace {

/// Queries whose kth neighbors are nearly equally far tell nothing: a guess.
constexpr double kLeastRatio = 1.05;
/// Below this, epsilon is no line in the distance, and near neighbors would raise the
/// rise: a guess.
constexpr double kLeastOnLine = -0.05;
/// As a share of the misses at the default recall. The point is interpolated: a guess.
constexpr double kClose = 0.3;

/// The ef_scale at which a curve reaches the recall.
double Interpolated(std::span<const EfScaleCurve::Point> points, double recall, double answers) {
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const double low = points[i].counted.recall, high = points[i + 1].counted.recall;
    if (low >= recall || high < recall) continue;
    const double share = (Logit(recall, answers) - Logit(low, answers)) /
                         (Logit(high, answers) - Logit(low, answers));
    return points[i].ef_scale + share * (points[i + 1].ef_scale - points[i].ef_scale);
  }
  return points.front().ef_scale;
}

}  // namespace

DifficultyOfQueries::DifficultyOfQueries(const LearningSet& learning, std::uint32_t k) : k_(k) {
  std::vector<std::pair<float, std::uint64_t>> order;
  for (std::uint64_t i = 0; i < learning.n(); ++i) {
    if (const auto distances = learning.truth.Distances(i); distances.size() >= k)
      order.emplace_back(distances[k - 1], i);
  }
  if (order.empty()) return;
  std::sort(order.begin(), order.end());
  typical_ = order[order.size() / 2].first;
  const std::size_t third = order.size() / 3;
  const auto take = [&](std::size_t begin, Third& taken) {
    for (std::size_t i = begin; i < begin + third; ++i) {
      taken.queries.push_back(order[i].second);
      taken.distance += double{order[i].first} / static_cast<double>(third);
    }
    // In the order of the learning set, so that any first of them are a random sample.
    std::sort(taken.queries.begin(), taken.queries.end());
  };
  take(0, near_);
  take(order.size() - third, far_);
}

absl::StatusOr<std::optional<double>> DifficultyOfQueries::EpsilonFor(const Third& third,
                                                                      const SearchContext& context,
                                                                      CountingRuns& runs) const {
  SearchParams graph{.k = k_, .mode = SearchMode::kGraph};
  HMANN_ASSIGN_OR_RETURN(const ResolvedParams at_one, graph.Resolve(context));
  const auto scaled = [&](double ef_scale) {
    return WithEfScale(at_one, ef_scale, context.n, context.n1);
  };
  const auto answers = static_cast<double>(third.queries.size() * k_);
  EfScaleCurve curve([&](double ef_scale) { return runs.Run(scaled(ef_scale), third.queries); },
                     answers, static_cast<double>(context.n), LeastEfScale(at_one));
  HMANN_ASSIGN_OR_RETURN(const auto reached,
                         curve.Reach(kDefaultRecall, kClose * (1 - kDefaultRecall)));
  if (!reached.has_value()) return std::nullopt;
  return scaled(Interpolated(curve.points(), kDefaultRecall, answers)).epsilon;
}

absl::StatusOr<float> DifficultyOfQueries::MeasureRise(const SearchContext& context,
                                                       CountingRuns& runs) const {
  if (!(far_.distance > kLeastRatio * near_.distance)) return 0;
  HMANN_ASSIGN_OR_RETURN(const auto near, EpsilonFor(near_, context, runs));
  if (!near.has_value()) return 0;
  HMANN_ASSIGN_OR_RETURN(const auto far, EpsilonFor(far_, context, runs));
  return static_cast<float>(std::max(0.0, far.value_or(-1) - std::max(*near, kLeastOnLine)) /
                            (far_.distance - near_.distance));
}

}  // namespace hmann
