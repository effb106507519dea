#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hmann {
namespace {

#define HMANN_OP __attribute__((always_inline)) static inline

/// The operations of kernel_loop.h for AVX-512 F, BW, VL and VNNI. A block is two
/// registers of 64 dimensions. They hold as many copies of the code's bytes as fit, each
/// shifted to its field. Levels are at most 15 and unsigned, as vpdpbusd requires of one
/// side.
struct Ops {
  using Sum = __m512i;
  HMANN_OP void Start(Sum& sum) { sum = _mm512_setzero_si512(); }

  template <unsigned kWidth>
  HMANN_OP __m512i Load(const std::uint8_t* code) {
    if constexpr (kWidth == 1)
      return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(code)));
    if constexpr (kWidth == 2)
      return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(code)));
    if constexpr (kWidth == 4) return _mm512_loadu_si512(code);
  }
  template <unsigned kWidth>
  HMANN_OP __m512i LoadTail(const std::uint8_t* code, std::uint64_t mask) {
    if constexpr (kWidth == 1)
      return _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), code));
    if constexpr (kWidth == 2)
      return _mm512_broadcast_i64x4(_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), code));
    if constexpr (kWidth == 4) return _mm512_maskz_loadu_epi8(mask, code);
  }

  template <unsigned kWidth>
  HMANN_OP void Accumulate(Sum& sum, __m512i low_query, __m512i high_query, __m512i code) {
    __m512i low = code;
    if constexpr (kWidth == 1)
      low =
          _mm512_srlv_epi32(code, _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0));
    if constexpr (kWidth == 2)
      low =
          _mm512_srlv_epi32(code, _mm512_set_epi32(2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i mask = _mm512_set1_epi8((1 << kWidth) - 1);
    sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(low, mask), low_query);
    sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi32(low, 4), mask), high_query);
  }

  template <unsigned kWidth>
  HMANN_OP void Add(Sum (&sums)[4], const std::int8_t* query,
                    const std::uint8_t* const (&codes)[4]) {
    const __m512i low = _mm512_loadu_si512(query), high = _mm512_loadu_si512(query + 64);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i)
      Accumulate<kWidth>(sums[i], low, high, Load<kWidth>(codes[i]));
  }
  template <unsigned kWidth>
  HMANN_OP void AddTail(Sum (&sums)[4], const std::int8_t* query,
                        const std::uint8_t* const (&codes)[4], std::size_t bytes) {
    const __m512i low = _mm512_loadu_si512(query), high = _mm512_loadu_si512(query + 64);
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - bytes);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i)
      Accumulate<kWidth>(sums[i], low, high, LoadTail<kWidth>(codes[i], mask));
  }

  HMANN_OP void Square(Sum& sum, __m512i code) {
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i low = _mm512_and_si512(code, mask),
                  high = _mm512_and_si512(_mm512_srli_epi32(code, 4), mask);
    sum = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, low, low), high, high);
  }
  HMANN_OP void AddSquares(Sum (&sums)[4], const std::uint8_t* const (&codes)[4]) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) Square(sums[i], Load<4>(codes[i]));
  }
  HMANN_OP void AddSquaresTail(Sum (&sums)[4], const std::uint8_t* const (&codes)[4],
                               std::size_t bytes) {
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - bytes);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) Square(sums[i], LoadTail<4>(codes[i], mask));
  }

  HMANN_OP void Reduce(const Sum (&s)[4], std::int32_t* dots) {
    const __m512i ab =
        _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    const __m512i cd =
        _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    const __m512i abcd =
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64(abcd, 1));
    const __m128i sum =
        _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dots), sum);
  }
};

#undef HMANN_OP

}  // namespace
}  // namespace hmann

// clang-format off
#include "index/codes/kernel_loop.h"
// clang-format on

namespace hmann {

const CodeKernels* Avx512CodeKernels() { return &kTable; }

}  // namespace hmann
