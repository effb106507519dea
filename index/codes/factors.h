#pragma once

#include <bit>
#include <cstdint>

namespace hmann {

/// The two factors of a code in one word. B is never negative, so A takes its sign bit. B
/// is the upper half of an f32 without the sign (7 bits after the leading one). A is the
/// upper 17 bits of an f32 (8 bits after it). Little-endian in a code, like all of an
/// index.
struct Factors {
  float a;
  float b;
};

/// Rounds to nearest. A value that is not finite, or rounds to infinity, becomes the
/// largest finite one. A negative `b` becomes 0.
inline std::uint32_t PackFactors(Factors factors) {
  const auto round = [](float x, unsigned dropped) {
    constexpr std::uint32_t kInfinity = 0x7f800000;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), sign = bits & 0x80000000u,
                        unit = 1u << dropped;
    std::uint32_t magnitude = (bits & 0x7fffffffu) + unit / 2;
    if (magnitude >= kInfinity) magnitude = kInfinity - unit;
    return sign | (magnitude & ~(unit - 1));
  };
  return round(factors.a, 15) | (factors.b > 0 ? round(factors.b, 16) >> 16 : 0u);
}

/// Accepts any 32 bits: the factors of a damaged code may not be finite.
inline Factors UnpackFactors(std::uint32_t word) {
  return {std::bit_cast<float>(word & 0xffff8000u), std::bit_cast<float>((word & 0x7fffu) << 16)};
}

/// Standard deviation of A's rounding, relative to A: 2^-8 / sqrt(12), with a mantissa of
/// 1 to 2.
constexpr float kRoundingOfA = 0.0008f;

}  // namespace hmann
