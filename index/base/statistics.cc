#include "index/base/statistics.h"

namespace hmann {

double Median(std::vector<double> values) {
  HMANN_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double Logit(double recall, double answers) {
  const double least = 0.5 / std::max(answers, 1.0);
  const double share = std::clamp(recall, least, 1 - least);
  return std::log(share / (1 - share));
}

double RoundToDecimals(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

double RoundToDigits(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace hmann
