/// Summary statistics of a series of measurements, and rounding to the digits that are
/// significant.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "index/base/check.h"

namespace hmann {

/// The middle value; for an even count, the mean of the two middle values. Requires at
/// least one value.
double Median(std::vector<double> values);

/// The smallest value that at least `share` of all values do not exceed (nearest rank).
/// Requires ascending order and at least one value.
template <class T>
T Percentile(const std::vector<T>& sorted, double share) {
  HMANN_CHECK(!sorted.empty());
  const auto rank = static_cast<std::size_t>(
      std::max(0.0, std::ceil(share * static_cast<double>(sorted.size()))));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

/// The log-odds of a recall over `answers` answers. On this scale recall grows evenly
/// with the logarithm of ef_scale. A recall of 0 or 1 counts as half an answer found or
/// missed.
double Logit(double recall, double answers = 5e5);

/// `value` rounded to `decimals` digits after the decimal point.
double RoundToDecimals(double value, int decimals);

/// `value` rounded to `digits` significant digits; 0 if it is not finite.
double RoundToDigits(double value, int digits);

}  // namespace hmann
