#include "index/tune/effort_curve.h"

#include <algorithm>
#include <cmath>

#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::Status EffortCurve::At(double effort) {
  const auto place = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& point) { return point.effort >= effort; });
  if (place != points_.end() && place->effort == effort) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const Counted counted, run_(effort));
  points_.insert(place, {effort, counted});
  return absl::OkStatus();
}

const EffortCurve::Point* EffortCurve::Lowest(double recall) const {
  for (const Point& point : points_) {
    if (point.counted.recall >= recall) return &point;
  }
  return nullptr;
}

const EffortCurve::Point* EffortCurve::Highest(double recall) const {
  const Point* highest = nullptr;
  for (const Point& point : points_) {
    if (point.counted.recall >= recall) break;
    highest = &point;
  }
  return highest;
}

/// Between two points on a straight line of the logarithm of the effort over the recall's
/// odds, beyond them by the steepness that is usual.
double EffortCurve::Guess(double recall, double guess) const {
  const Point *above = Lowest(recall), *below = Highest(recall);
  if (above == nullptr && below == nullptr) return guess > 0 ? guess : 1;
  const double wanted = Logit(recall, answers_);
  if (above != nullptr && below != nullptr) {
    const double low = Logit(below->counted.recall, answers_),
                 high = Logit(above->counted.recall, answers_);
    // A little above: below the target it would be of no use.
    const double share =
        high > low ? std::clamp((wanted - low) / (high - low) + 0.02, 0.1, 0.9) : 0.5;
    return below->effort * std::pow(above->effort / below->effort, share);
  }
  // Of SIFT and words: elsewhere a guess, which costs a run more and no answer.
  constexpr double kEffortALogit = 1.8, kMostStep = 4;
  const Point& nearest = above != nullptr ? *above : *below;
  const double step = std::pow(kEffortALogit, wanted - Logit(nearest.counted.recall, answers_));
  return above != nullptr ? nearest.effort * std::clamp(0.95 * step, 1 / kMostStep, 0.9)
                          : nearest.effort * std::clamp(1.05 * step, 1.2, kMostStep);
}

/// Whether the last half as much effort again found a tenth of what is missing at most: a
/// search on and on would cost more than all before, and not reach it. Both shares are
/// guesses.
bool EffortCurve::Saturated(double recall) const {
  const Point& last = points_.back();
  for (auto point = points_.rbegin(); point != points_.rend(); ++point) {
    if (point->effort > last.effort / 1.5) continue;
    return last.counted.recall - point->counted.recall < 0.1 * (recall - last.counted.recall);
  }
  return false;
}

absl::StatusOr<std::optional<EffortCurve::Point>> EffortCurve::Reach(double recall,
                                                                     double tolerance,
                                                                     double guess) {
  constexpr int kMostRuns = 12;
  constexpr double kAsClose = 1.01;  // of two efforts: no setting lies between them that matters
  for (int runs = 0; runs < kMostRuns; ++runs) {
    const Point *above = Lowest(recall), *below = Highest(recall);
    if (above != nullptr && above->counted.recall < recall + tolerance) break;
    if (above != nullptr &&
        (below != nullptr ? above->effort < kAsClose * below->effort : above->effort <= kLeast))
      break;
    if (above == nullptr && below != nullptr && (below->effort >= kMost || Saturated(recall)))
      break;
    const double effort = std::clamp(Guess(recall, guess), kLeast, kMost);
    HMANN_RETURN_IF_ERROR(At(effort));
  }
  const Point* found = Lowest(recall);
  return found != nullptr ? std::optional<Point>(*found) : std::nullopt;
}

}  // namespace hmann
