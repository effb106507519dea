/// What a series of measurements is boiled down to, and the digits that are worth keeping
/// of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "index/base/check.h"

namespace hmann {

/// The middle value (of an even count: the mean of the two in the middle). Requires at
/// least one value.
double Median(std::vector<double> values);

/// The smallest value that at least `share` of all do not exceed (nearest rank). Requires
/// ascending order and at least one value.
template <class T>
T Percentile(const std::vector<T>& sorted, double share) {
  HMANN_CHECK(!sorted.empty());
  const auto rank = static_cast<std::size_t>(
      std::max(0.0, std::ceil(share * static_cast<double>(sorted.size()))));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

/// The logarithm of the odds of a recall, over so many answers: the scale on which recall
/// grows evenly with the logarithm of the effort. None found, or all, counts as half of
/// one.
double Logit(double recall, double answers = 5e5);

/// `value` with so many digits behind the point.
double RoundToDecimals(double value, int decimals);

/// `value` with so many digits, wherever its point is; 0 of what is not finite.
double RoundToDigits(double value, int digits);

}  // namespace hmann
