#include "index/tune/least_squares.h"

#include <algorithm>
#include <cmath>

namespace hmann {

std::vector<double> NonNegativeLeastSquares(std::span<const double> a, std::span<const double> b,
                                            std::size_t columns) {
  constexpr int kMostSweeps = 20000;
  std::vector<double> length(columns, 0), gram(columns * columns, 0), moment(columns, 0),
      x(columns, 0);
  for (std::size_t row = 0; row < b.size(); ++row) {
    for (std::size_t j = 0; j < columns; ++j)
      length[j] += a[row * columns + j] * a[row * columns + j];
  }
  for (double& value : length) value = std::sqrt(value);
  for (std::size_t row = 0; row < b.size(); ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      if (length[i] == 0) continue;
      const double left = a[row * columns + i] / length[i];
      moment[i] += left * b[row];
      for (std::size_t j = 0; j < columns; ++j) {
        if (length[j] > 0) gram[i * columns + j] += left * a[row * columns + j] / length[j];
      }
    }
  }
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double change = 0, size = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      if (length[j] == 0) continue;
      double gradient = -moment[j];
      for (std::size_t i = 0; i < columns; ++i) gradient += gram[j * columns + i] * x[i];
      const double next = std::max(0.0, x[j] - gradient / gram[j * columns + j]);
      change = std::max(change, std::abs(next - x[j]));
      size = std::max(size, next);
      x[j] = next;
    }
    if (change <= 1e-10 * size) break;
  }
  for (std::size_t j = 0; j < columns; ++j) x[j] = length[j] > 0 ? x[j] / length[j] : 0;
  return x;
}

bool Cholesky::Factor(std::vector<double> matrix, std::size_t n) {
  n_ = n;
  l_ = std::move(matrix);
  for (std::size_t j = 0; j < n; ++j) {
    double* row = &l_[j * n];
    for (std::size_t i = 0; i <= j; ++i) {
      const double* above = &l_[i * n];
      double sum = row[i];
      for (std::size_t k = 0; k < i; ++k) sum -= row[k] * above[k];
      if (i < j) {
        row[i] = sum / above[i];
      } else if (sum > 0) {
        row[j] = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  return true;
}

std::vector<double> Cholesky::Solve(std::vector<double> b) const {
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l_[i * n_ + k] * b[k];
    b[i] /= l_[i * n_ + i];
  }
  for (std::size_t i = n_; i-- > 0;) {
    for (std::size_t k = i + 1; k < n_; ++k) b[i] -= l_[k * n_ + i] * b[k];
    b[i] /= l_[i * n_ + i];
  }
  return b;
}

std::vector<double> Cholesky::InverseDiagonal() const {
  std::vector<double> diagonal(n_);
  for (std::size_t i = 0; i < n_; ++i) {
    std::vector<double> unit(n_, 0);
    unit[i] = 1;
    diagonal[i] = Solve(std::move(unit))[i];
  }
  return diagonal;
}

}  // namespace hmann
