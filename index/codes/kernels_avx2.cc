#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "index/distance/ops_tail.h"

namespace hmann {
namespace {

#define HMANN_OP __attribute__((always_inline)) static inline

/// The operations of kernel_loop.h for AVX2. vpmaddubsw adds pairs of products of at most
/// 15 x 127 in 16 bits. The four pairs of a block stay below 2^15.
struct Ops {
  using Sum = __m256i;
  HMANN_OP void Start(Sum& sum) { sum = _mm256_setzero_si256(); }

  HMANN_OP __m128i Load16(const std::uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  HMANN_OP __m256i Load32(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  HMANN_OP __m128i LoadUpTo16(const std::uint8_t* p, std::size_t n) {
    if (n >= 16) return Load16(p);
    if (n == 0) return _mm_setzero_si128();
    const Bytes16 bytes = LoadBelow16(p, n);
    return _mm_set_epi64x(static_cast<long long>(bytes.high), static_cast<long long>(bytes.low));
  }
  HMANN_OP __m256i LoadUpTo32(const std::uint8_t* p, std::size_t n) {
    if (n >= 32) return Load32(p);
    const std::size_t high = n > 16 ? n - 16 : 0;
    return _mm256_set_m128i(LoadUpTo16(high != 0 ? p + 16 : p, high), LoadUpTo16(p, n));
  }

  /// The bytes of a block: 16 (twice), 32, or 64 in two registers.
  struct Code {
    __m256i first;
    __m256i second;
  };
  template <unsigned kWidth>
  HMANN_OP Code Load(const std::uint8_t* code) {
    if constexpr (kWidth == 1)
      return {_mm256_broadcastsi128_si256(Load16(code)), _mm256_setzero_si256()};
    if constexpr (kWidth == 2) return {Load32(code), _mm256_setzero_si256()};
    if constexpr (kWidth == 4) return {Load32(code), Load32(code + 32)};
  }
  template <unsigned kWidth>
  HMANN_OP Code LoadTail(const std::uint8_t* code, std::size_t bytes) {
    if constexpr (kWidth == 1)
      return {_mm256_broadcastsi128_si256(LoadUpTo16(code, bytes)), _mm256_setzero_si256()};
    if constexpr (kWidth == 2) return {LoadUpTo32(code, bytes), _mm256_setzero_si256()};
    if constexpr (kWidth == 4)
      return {LoadUpTo32(code, bytes),
              bytes > 32 ? LoadUpTo32(code + 32, bytes - 32) : _mm256_setzero_si256()};
  }

  template <unsigned kWidth>
  HMANN_OP void Accumulate(Sum& sum, const __m256i (&query)[4], Code code) {
    const __m256i mask = _mm256_set1_epi8((1 << kWidth) - 1);
    __m256i fields[4];
    if constexpr (kWidth == 4) {
      fields[0] = code.first, fields[1] = code.second;
      fields[2] = _mm256_srli_epi32(code.first, 4), fields[3] = _mm256_srli_epi32(code.second, 4);
    } else {
      fields[0] = kWidth == 1
                      ? _mm256_srlv_epi32(code.first, _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0))
                      : code.first;
      fields[1] = _mm256_srli_epi32(fields[0], 2);
      fields[2] = _mm256_srli_epi32(fields[0], 4);
      fields[3] = _mm256_srli_epi32(fields[0], 6);
    }
    __m256i pairs = _mm256_maddubs_epi16(_mm256_and_si256(fields[0], mask), query[0]);
#pragma GCC unroll 4
    for (std::size_t i = 1; i < 4; ++i) {
      pairs = _mm256_add_epi16(pairs,
                               _mm256_maddubs_epi16(_mm256_and_si256(fields[i], mask), query[i]));
    }
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }

  template <unsigned kWidth>
  HMANN_OP void Add(Sum (&sums)[4], const std::int8_t* query,
                    const std::uint8_t* const (&codes)[4]) {
    const __m256i q[4] = {Load32(query), Load32(query + 32), Load32(query + 64),
                          Load32(query + 96)};
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) Accumulate<kWidth>(sums[i], q, Load<kWidth>(codes[i]));
  }
  template <unsigned kWidth>
  HMANN_OP void AddTail(Sum (&sums)[4], const std::int8_t* query,
                        const std::uint8_t* const (&codes)[4], std::size_t bytes) {
    const __m256i q[4] = {Load32(query), Load32(query + 32), Load32(query + 64),
                          Load32(query + 96)};
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i)
      Accumulate<kWidth>(sums[i], q, LoadTail<kWidth>(codes[i], bytes));
  }

  /// Pairs of squares of at most 2 x 225: the sum of four fits 16 bits.
  HMANN_OP void Square(Sum& sum, Code code) {
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i levels[4] = {_mm256_and_si256(code.first, mask),
                               _mm256_and_si256(code.second, mask),
                               _mm256_and_si256(_mm256_srli_epi32(code.first, 4), mask),
                               _mm256_and_si256(_mm256_srli_epi32(code.second, 4), mask)};
    __m256i pairs = _mm256_maddubs_epi16(levels[0], levels[0]);
#pragma GCC unroll 4
    for (std::size_t i = 1; i < 4; ++i)
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(levels[i], levels[i]));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  HMANN_OP void AddSquares(Sum (&sums)[4], const std::uint8_t* const (&codes)[4]) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) Square(sums[i], Load<4>(codes[i]));
  }
  HMANN_OP void AddSquaresTail(Sum (&sums)[4], const std::uint8_t* const (&codes)[4],
                               std::size_t bytes) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) Square(sums[i], LoadTail<4>(codes[i], bytes));
  }

  HMANN_OP void Reduce(const Sum (&s)[4], std::int32_t* dots) {
    const __m256i ab =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    const __m256i cd =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    const __m256i abcd =
        _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    const __m128i sum =
        _mm_add_epi32(_mm256_castsi256_si128(abcd), _mm256_extracti128_si256(abcd, 1));
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

const CodeKernels* Avx2CodeKernels() { return &kTable; }

}  // namespace hmann
