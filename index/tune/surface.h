#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hmann {

/// A smooth function of a few coordinates, known at scattered points: a plane by least
/// squares, and what it misses by kriging with a Matern 3/2 kernel (Rasmussen and
/// Williams 2006, chapter 2). How far a point reaches and how much of the values is noise
/// are those of a small table that predict each point best from the others (leave one
/// out, in closed form: their equation 5.12).
class Surface {
 public:
  using Point = std::vector<double>;

  /// `points` all of one dimension, `values` of equal count, at least one.
  static Surface Fit(std::vector<Point> points, std::span<const double> values);

  double At(const Point& point) const;
  /// Root mean square of what each point's value misses when the others predict it; of
  /// one point: the value itself.
  double leave_one_out_error() const { return error_; }

 private:
  double Plane(const Point& point) const;
  static double Kernel(const Point& a, const Point& b, double reach);

  std::vector<Point> points_;
  std::vector<double> plane_;    ///< constant, then a slope for each coordinate
  std::vector<double> weights_;  ///< of each point's kernel
  double reach_ = 1;
  double error_ = 0;
};

}  // namespace hmann
