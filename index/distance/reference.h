#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hmann/types.h"
#include "index/distance/half.h"

namespace hmann {

/// The true distance between two stored rows, and the allowed error of a kernel.
struct ReferenceDistance {
  double distance;
  /// u8, i8 under L2 and inner product: 0. u8, i8 under cosine: one rounding to f32. f32,
  /// f16: (dim / 4 + 8) * 2^-24 * (the sum of the terms' absolute values). An f32 sum has
  /// at least 4 lanes. So a term passes through at most dim / 4 + 3 additions, after at
  /// most 3 roundings of its own. Cosine adds the rounding of 1 - dot.
  double bound;
};

/// Component `i` of a vector.
inline double Component(DType dtype, const std::byte* row, std::size_t i) {
  switch (dtype) {
    case DType::kF32: {
      float x;
      std::memcpy(&x, row + i * sizeof(x), sizeof(x));
      return x;
    }
    case DType::kF16: {
      Half x;
      std::memcpy(&x, row + i * sizeof(x), sizeof(x));
      return x;
    }
    case DType::kU8:
      return std::to_integer<std::uint8_t>(row[i]);
    case DType::kI8:
      return static_cast<std::int8_t>(row[i]);
  }
  return std::nan("");
}

namespace reference_internal {

inline double InverseNorm(const std::byte* row, std::size_t dim) {
  float norm;
  std::memcpy(&norm, row + (dim + 3) / 4 * 4, sizeof(norm));
  return norm;
}

}  // namespace reference_internal

/// Slow and simple, in double precision, which is exact for u8 and i8. `query`, `row`:
/// stored rows as EncodeRow writes them.
inline ReferenceDistance MeasureReference(DType dtype, Metric metric, const std::byte* query,
                                          const std::byte* row, std::size_t dim) {
  constexpr double kUnit = 1.0 / (1 << 24);
  const bool halved_l2 = dtype == DType::kF16 && metric == Metric::kCosine;
  double sum = 0, magnitude = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    const double a = Component(dtype, query, i), b = Component(dtype, row, i);
    const double term = metric == Metric::kL2 || halved_l2 ? (a - b) * (a - b) : a * b;
    sum += term;
    magnitude += std::abs(term);
  }
  const bool is_float = IsFloat(dtype);
  const double bound = is_float ? (dim / 4.0 + 8) * kUnit * magnitude + dim * 0x1p-149 : 0;
  if (metric == Metric::kL2) return {sum, bound};
  if (metric == Metric::kInnerProduct) return {-sum, bound};
  if (halved_l2) return {std::clamp(sum / 2, 0.0, 2.0), bound + 2 * kUnit};
  if (!is_float)
    sum *= reference_internal::InverseNorm(query, dim) * reference_internal::InverseNorm(row, dim);
  return {std::clamp(1.0 - sum, 0.0, 2.0), bound + 2 * kUnit};
}

}  // namespace hmann
