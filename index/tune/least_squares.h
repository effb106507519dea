#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hmann {

/// The x >= 0 that minimises |a x - b|. `a`: b.size() rows of `columns`, row-major.
/// Columns that say the same share the weight; a column of zeros gets 0. Coordinate
/// descent on the normal equations (Franc, Hlavac, Navara 2005), columns scaled to length
/// 1.
std::vector<double> NonNegativeLeastSquares(std::span<const double> a, std::span<const double> b,
                                            std::size_t columns);

/// A symmetric positive definite matrix as L L^T. Row-major, n x n.
class Cholesky {
 public:
  /// False when `matrix` is not positive definite to working precision.
  bool Factor(std::vector<double> matrix, std::size_t n);
  /// The x with matrix x = b.
  std::vector<double> Solve(std::vector<double> b) const;
  /// Diagonal of the inverse.
  std::vector<double> InverseDiagonal() const;

 private:
  std::size_t n_ = 0;
  std::vector<double> l_;
};

}  // namespace hmann
