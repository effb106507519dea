#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "index/distance/ops_tail.h"

namespace hmann {
namespace {

#define HMANN_OP __attribute__((always_inline)) static inline

/// The operations of kernel_loop.h for Advanced SIMD without the dot-product extension. A
/// product is a level of at most 15 times a signed byte. The eight products of a block in
/// a 16-bit lane stay below 2^15.
struct Ops {
  using Sum = int32x4_t;
  HMANN_OP void Start(Sum& sum) { sum = vdupq_n_s32(0); }

  HMANN_OP uint8x16_t LoadUpTo16(const std::uint8_t* p, std::size_t n) {
    if (n >= 16) return vld1q_u8(p);
    if (n == 0) return vdupq_n_u8(0);
    const Bytes16 bytes = LoadBelow16(p, n);
    return vcombine_u8(vcreate_u8(bytes.low), vcreate_u8(bytes.high));
  }

  template <unsigned kWidth>
  HMANN_OP void Accumulate(Sum& sum, const std::int8_t* query, const uint8x16_t (&code)[kWidth]) {
    const uint8x16_t mask = vdupq_n_u8((1 << kWidth) - 1);
    int16x8_t low = vdupq_n_s16(0), high = vdupq_n_s16(0);
#pragma GCC unroll 8
    for (unsigned field = 0; field < 8 / kWidth; ++field) {
      const int8x16_t shift =
          vdupq_n_s8(static_cast<std::int8_t>(-static_cast<int>(field * kWidth)));
#pragma GCC unroll 4
      for (unsigned k = 0; k < kWidth; ++k) {
        const int8x16_t levels = vreinterpretq_s8_u8(vandq_u8(vshlq_u8(code[k], shift), mask));
        const int8x16_t q = vld1q_s8(query + (field * kWidth + k) * 16);
        low = vmlal_s8(low, vget_low_s8(levels), vget_low_s8(q));
        high = vmlal_high_s8(high, levels, q);
      }
    }
    sum = vpadalq_s16(vpadalq_s16(sum, low), high);
  }

  template <unsigned kWidth>
  HMANN_OP void AddTail(Sum (&sums)[4], const std::int8_t* query,
                        const std::uint8_t* const (&codes)[4], std::size_t bytes) {
    for (std::size_t i = 0; i < 4; ++i) {
      uint8x16_t code[kWidth];
#pragma GCC unroll 4
      for (unsigned k = 0; k < kWidth; ++k) {
        const std::size_t begin = k * 16;
        code[k] = bytes > begin ? LoadUpTo16(codes[i] + begin, bytes - begin) : vdupq_n_u8(0);
      }
      Accumulate<kWidth>(sums[i], query, code);
    }
  }
  template <unsigned kWidth>
  HMANN_OP void Add(Sum (&sums)[4], const std::int8_t* query,
                    const std::uint8_t* const (&codes)[4]) {
    for (std::size_t i = 0; i < 4; ++i) {
      uint8x16_t code[kWidth];
#pragma GCC unroll 4
      for (unsigned k = 0; k < kWidth; ++k) code[k] = vld1q_u8(codes[i] + k * 16);
      Accumulate<kWidth>(sums[i], query, code);
    }
  }

  HMANN_OP void AddSquaresTail(Sum (&sums)[4], const std::uint8_t* const (&codes)[4],
                               std::size_t bytes) {
    const uint8x16_t mask = vdupq_n_u8(15);
    for (std::size_t i = 0; i < 4; ++i) {
      uint16x8_t squares = vdupq_n_u16(0);
#pragma GCC unroll 4
      for (std::size_t k = 0; k < 4; ++k) {
        const uint8x16_t code =
            bytes > k * 16 ? LoadUpTo16(codes[i] + k * 16, bytes - k * 16) : vdupq_n_u8(0);
        const uint8x16_t low = vandq_u8(code, mask), high = vshrq_n_u8(code, 4);
        squares = vmlal_u8(squares, vget_low_u8(low), vget_low_u8(low));
        squares = vmlal_high_u8(squares, low, low);
        squares = vmlal_u8(squares, vget_low_u8(high), vget_low_u8(high));
        squares = vmlal_high_u8(squares, high, high);
      }
      sums[i] = vreinterpretq_s32_u32(vpadalq_u16(vreinterpretq_u32_s32(sums[i]), squares));
    }
  }
  HMANN_OP void AddSquares(Sum (&sums)[4], const std::uint8_t* const (&codes)[4]) {
    AddSquaresTail(sums, codes, 64);
  }

  HMANN_OP void Reduce(const Sum (&s)[4], std::int32_t* dots) {
    vst1q_s32(dots, vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3])));
  }
};

#undef HMANN_OP

}  // namespace
}  // namespace hmann

// clang-format off
#include "index/codes/kernel_loop.h"
// clang-format on

namespace hmann {

const CodeKernels* NeonCodeKernels() { return &kTable; }

}  // namespace hmann
