#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hmann/distance.h"
#include "index/distance/half.h"

namespace hmann {

/// Distance in full precision: squared L2, negative inner product, or 1 - cosine. The
/// sums are 64-bit integers for u8 and i8 (exact as a double: below 2^53), and doubles
/// for f32 and f16. Cosine is dot / sqrt(|a|^2 |b|^2). Components are read unaligned.
template <typename A, typename B, typename Sum>
double ExactDistanceOf(Metric metric, const std::byte* a, const std::byte* b, std::uint32_t dim) {
  Sum dot = 0, squares_a = 0, squares_b = 0, difference = 0;
  for (std::uint32_t c = 0; c < dim; ++c) {
    A x;
    B y;
    std::memcpy(&x, a + c * sizeof(x), sizeof(x));
    std::memcpy(&y, b + c * sizeof(y), sizeof(y));
    const Sum p = x, q = y;  // NOLINT(bugprone-signed-char-misuse): an i8 is a number
    if (metric == Metric::kL2) {
      difference += (p - q) * (p - q);
    } else {
      dot += p * q;
      if (metric == Metric::kCosine) {
        squares_a += p * p;
        squares_b += q * q;
      }
    }
  }
  if (metric == Metric::kL2) return static_cast<double>(difference);
  if (metric == Metric::kInnerProduct) return 0.0 - static_cast<double>(dot);
  const double norms =
      std::sqrt(static_cast<double>(squares_a)) * std::sqrt(static_cast<double>(squares_b));
  return 1.0 - static_cast<double>(dot) / norms;
}

/// `a`: of type `dtype`, or f32 where `dtype` is f16; `b`: of type `dtype`.
inline double ExactDistance(DType a_dtype, DType dtype, Metric metric, const std::byte* a,
                            const std::byte* b, std::uint32_t dim) {
  switch (dtype) {
    case DType::kU8:
      return ExactDistanceOf<std::uint8_t, std::uint8_t, std::int64_t>(metric, a, b, dim);
    case DType::kI8:
      return ExactDistanceOf<std::int8_t, std::int8_t, std::int64_t>(metric, a, b, dim);
    case DType::kF16:
      return a_dtype == DType::kF16 ? ExactDistanceOf<Half, Half, double>(metric, a, b, dim)
                                    : ExactDistanceOf<float, Half, double>(metric, a, b, dim);
    case DType::kF32:
      break;
  }
  return ExactDistanceOf<float, float, double>(metric, a, b, dim);
}

}  // namespace hmann
