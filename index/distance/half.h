#pragma once

#include <cstdint>

namespace hmann {

/// IEEE 754 binary16: 11 bits of mantissa, magnitudes from 2^-24 to 65504.
struct Half {
  std::uint16_t bits;

  /// The same number, exactly. Has no branch, so that loops over it vectorize.
  __attribute__((always_inline)) operator float() const {
    constexpr std::uint32_t kInfinity = 0x7c00u << 13;
    const std::uint32_t magnitude = std::uint32_t{bits & 0x7fffu} << 13;
    float value;
    __builtin_memcpy(&value, &magnitude, sizeof(value));
    value *= 0x1p112f;  // rebias the exponent; also corrects denormals
    std::uint32_t widened;
    __builtin_memcpy(&widened, &value, sizeof(widened));
    widened |= magnitude >= kInfinity ? 0x7f800000u : 0u;
    widened |= std::uint32_t{bits & 0x8000u} << 16;
    __builtin_memcpy(&value, &widened, sizeof(value));
    return value;
  }

  /// The nearest half, ties to even; infinity from 65520 on.
  static Half Nearest(float value) {
    constexpr std::uint32_t kLeastNormal = 113u << 23, kOverflow = 143u << 23;
    std::uint32_t magnitude;
    __builtin_memcpy(&magnitude, &value, sizeof(magnitude));
    const std::uint32_t sign = magnitude >> 16 & 0x8000u;
    magnitude &= 0x7fffffffu;
    std::uint32_t half;
    if (magnitude >= kOverflow) {
      half = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    } else if (magnitude < kLeastNormal) {
      // The last place of the sum is that of a half, so the addition rounds there.
      float sum;
      __builtin_memcpy(&sum, &magnitude, sizeof(sum));
      sum += 0.5f;
      __builtin_memcpy(&half, &sum, sizeof(half));
      half -= 0x3f000000u;
    } else {
      const std::uint32_t odd = magnitude >> 13 & 1;
      half = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
    }
    return {static_cast<std::uint16_t>(half | sign)};
  }
};
static_assert(sizeof(Half) == 2);

constexpr float kLargestHalf = 65504;

}  // namespace hmann
