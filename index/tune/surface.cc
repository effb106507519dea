#include "index/tune/surface.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "index/tune/least_squares.h"

namespace hmann {
namespace {

/// Least squares with a slope that is drawn to 0 a little, so that a coordinate which
/// does not vary gets none.
std::vector<double> FitPlane(const std::vector<Surface::Point>& points,
                             std::span<const double> values) {
  const std::size_t columns = points[0].size() + 1;
  std::vector<double> gram(columns * columns, 0), moment(columns, 0);
  const auto coordinate = [](const Surface::Point& point, std::size_t j) {
    return j == 0 ? 1.0 : point[j - 1];
  };
  for (std::size_t row = 0; row < points.size(); ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      moment[i] += coordinate(points[row], i) * values[row];
      for (std::size_t j = 0; j < columns; ++j)
        gram[i * columns + j] += coordinate(points[row], i) * coordinate(points[row], j);
    }
  }
  for (std::size_t i = 0; i < columns; ++i) gram[i * columns + i] += i == 0 ? 1e-9 : 1e-3;
  Cholesky factor;
  return factor.Factor(gram, columns) ? factor.Solve(moment) : std::vector<double>(columns, 0);
}

}  // namespace

double Surface::Kernel(const Point& a, const Point& b, double reach) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const double distance = std::sqrt(3 * squares) / reach;
  return (1 + distance) * std::exp(-distance);
}

double Surface::Plane(const Point& point) const {
  double value = plane_[0];
  for (std::size_t i = 0; i < point.size(); ++i) value += plane_[i + 1] * point[i];
  return value;
}

Surface Surface::Fit(std::vector<Point> points, std::span<const double> values) {
  Surface surface;
  const std::size_t n = points.size();
  surface.plane_ = FitPlane(points, values);
  surface.points_ = std::move(points);
  surface.weights_.assign(n, 0);
  std::vector<double> rest(n);
  for (std::size_t i = 0; i < n; ++i) rest[i] = values[i] - surface.Plane(surface.points_[i]);
  double best = std::numeric_limits<double>::infinity();
  for (const double reach : {2.0, 4.0, 8.0, 16.0}) {
    std::vector<double> kernel(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j)
        kernel[i * n + j] = Kernel(surface.points_[i], surface.points_[j], reach);
    }
    for (const double noise : {1e-5, 1e-3, 1e-1}) {
      std::vector<double> matrix = kernel;
      for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] += noise;
      Cholesky factor;
      if (!factor.Factor(std::move(matrix), n)) continue;
      std::vector<double> weights = factor.Solve(rest);
      const std::vector<double> inverse = factor.InverseDiagonal();
      double squares = 0;
      for (std::size_t i = 0; i < n; ++i)
        squares += (weights[i] / inverse[i]) * (weights[i] / inverse[i]);
      if (squares >= best) continue;
      best = squares;
      surface.weights_ = std::move(weights);
      surface.reach_ = reach;
    }
  }
  surface.error_ = std::sqrt(best / static_cast<double>(n));
  return surface;
}

double Surface::At(const Point& point) const {
  double value = Plane(point);
  for (std::size_t i = 0; i < points_.size(); ++i)
    value += weights_[i] * Kernel(point, points_[i], reach_);
  return value;
}

}  // namespace hmann
