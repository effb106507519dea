#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/base/check.h"
#include "index/base/statistics.h"

namespace hmann::eval {

double Mad(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - median));
  return Median(std::move(deviations));
}

std::vector<std::size_t> ParetoFront(std::span<const OperatingPoint> points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // From the highest recall down: a point is on the front if it is faster than every
  // earlier one.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (points[a].recall != points[b].recall) return points[a].recall > points[b].recall;
    if (points[a].qps != points[b].qps) return points[a].qps > points[b].qps;
    return a < b;
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order) {
    if (front.empty() || points[i].qps > points[front.back()].qps) front.push_back(i);
  }
  std::reverse(front.begin(), front.end());
  return front;
}

std::optional<AtRecall> InterpolateAtRecall(std::span<const double> recalls,
                                            std::span<const double> values, double target,
                                            double resolution) {
  HMANN_CHECK(recalls.size() == values.size());
  if (recalls.empty() || recalls.back() < target) return std::nullopt;
  const auto above = static_cast<std::size_t>(
      std::lower_bound(recalls.begin(), recalls.end(), target) - recalls.begin());
  if (above == 0) return AtRecall{values[0], std::max(target, recalls[0])};
  const auto scale = [resolution](double recall) {
    return -std::log(std::max(1 - recall, resolution / 2));
  };
  const double low = scale(recalls[above - 1]), high = scale(recalls[above]);
  const double share =
      high > low ? std::clamp((scale(target) - low) / (high - low), 0.0, 1.0) : 1.0;
  const double from = values[above - 1], to = values[above];
  if (from == 0 || to == 0) return AtRecall{std::lerp(from, to, share), target};
  return AtRecall{std::exp(std::lerp(std::log(from), std::log(to), share)), target};
}

}  // namespace hmann::eval
