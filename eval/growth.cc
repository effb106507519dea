#include "eval/growth.h"

#include <algorithm>
#include <cmath>

namespace hmann {
namespace {

/// y = start + slope x of the points, and what is needed for an error of it elsewhere.
struct Line {
  double start = 0, slope = 0, mean_x = 0, spread_x = 0;  ///< spread: sum of squares about the mean

  Line(const std::vector<double>& x, const std::vector<double>& y) {
    const auto count = static_cast<double>(x.size());
    double mean_y = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      mean_x += x[i] / count;
      mean_y += y[i] / count;
    }
    double both = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      spread_x += (x[i] - mean_x) * (x[i] - mean_x);
      both += (x[i] - mean_x) * (y[i] - mean_y);
    }
    slope = spread_x > 0 ? both / spread_x : 0;
    start = mean_y - slope * mean_x;
  }

  double At(double x) const { return start + slope * x; }

  /// One standard error of a new y at `at`; nullopt without a residual.
  std::optional<double> ErrorAt(const std::vector<double>& x, const std::vector<double>& y,
                                double at) const {
    if (x.size() < 3) return std::nullopt;
    const auto count = static_cast<double>(x.size());
    double squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) squares += (y[i] - At(x[i])) * (y[i] - At(x[i]));
    const double off = (at - mean_x) * (at - mean_x) / spread_x;
    return std::sqrt(squares / (count - 2) * (1 + 1 / count + off));
  }
};

std::vector<double> Logs(std::span<const SizedFigure> figures, double SizedFigure::*of) {
  std::vector<double> logs;
  for (const SizedFigure& figure : figures) logs.push_back(std::log(figure.*of));
  return logs;
}

std::vector<double> Values(std::span<const SizedFigure> figures) {
  std::vector<double> values;
  for (const SizedFigure& figure : figures) values.push_back(figure.value);
  return values;
}

template <typename Fitted>
void AddResiduals(std::span<const SizedFigure> figures, Fitted fitted, GrowthFit* fit) {
  double squares = 0;
  for (const SizedFigure& figure : figures) {
    fit->residuals.push_back(figure.value / fitted(figure.n) - 1);
    squares += fit->residuals.back() * fit->residuals.back();
  }
  fit->rms = std::sqrt(squares / static_cast<double>(figures.size()));
}

}  // namespace

std::optional<Growth> FitGrowth(std::span<const SizedFigure> figures) {
  const bool positive = std::all_of(figures.begin(), figures.end(), [](const SizedFigure& figure) {
    return figure.n > 0 && figure.value > 0;
  });
  if (figures.size() < 2 || !positive) return std::nullopt;
  Growth growth;
  const std::vector<double> x = Logs(figures, &SizedFigure::n);
  const Line logarithm(x, Values(figures)), power(x, Logs(figures, &SizedFigure::value));
  growth.logarithm = {logarithm.start, logarithm.slope, {}, 0};
  growth.power = {std::exp(power.start), power.slope, {}, 0};
  AddResiduals(
      figures, [&](double n) { return logarithm.At(std::log(n)); }, &growth.logarithm);
  AddResiduals(
      figures, [&](double n) { return std::exp(power.At(std::log(n))); }, &growth.power);
  return growth;
}

Extrapolated ExtrapolateLogarithm(std::span<const SizedFigure> figures, const GrowthFit& fit,
                                  double n) {
  const std::vector<double> x = Logs(figures, &SizedFigure::n), y = Values(figures);
  return {fit.start + fit.slope * std::log(n), Line(x, y).ErrorAt(x, y, std::log(n))};
}

Extrapolated ExtrapolatePower(std::span<const SizedFigure> figures, const GrowthFit& fit,
                              double n) {
  const std::vector<double> x = Logs(figures, &SizedFigure::n),
                            y = Logs(figures, &SizedFigure::value);
  std::optional<double> error = Line(x, y).ErrorAt(x, y, std::log(n));
  if (error) error = std::exp(*error);
  return {fit.start * std::pow(n, fit.slope), error};
}

}  // namespace hmann
