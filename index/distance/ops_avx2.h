#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "index/distance/half.h"
#include "index/distance/ops_tail.h"

/// The operations of kernel_loop.h for AVX2, FMA and F16C.
namespace hmann {
namespace {

#define HMANN_OP __attribute__((always_inline)) static inline

/// Reduces four vectors of 8 lanes to four sums. The order of additions of each row does
/// not depend on the other rows.
HMANN_OP __m128i ReduceLanes(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  const __m256i abcd =
      _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  return _mm_add_epi32(_mm256_castsi256_si128(abcd), _mm256_extracti128_si256(abcd, 1));
}
HMANN_OP __m128 ReduceLanes(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const __m256 low =
      _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd)));
  const __m256 high =
      _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd)));
  const __m256 abcd = _mm256_add_ps(low, high);
  return _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1));
}

struct F32Rows {
  using Component = float;
  HMANN_OP __m256i Mask(std::size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  HMANN_OP __m256 Load(const float* q) { return _mm256_loadu_ps(q); }
  HMANN_OP __m256 LoadTail(const float* q, std::size_t n) { return _mm256_maskload_ps(q, Mask(n)); }
};

/// Widened by F16C on load.
struct F16Rows {
  using Component = Half;
  HMANN_OP __m256 Load(const Half* q) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  }
  HMANN_OP __m256 LoadTail(const Half* q, std::size_t n) {
    const Bytes16 bytes = LoadBelow16(q, n * sizeof(Half));
    return _mm256_cvtph_ps(
        _mm_set_epi64x(static_cast<long long>(bytes.high), static_cast<long long>(bytes.low)));
  }
};

template <class Rows>
struct FloatOp : Rows {
  using Value = float;
  using Block = __m256;
  using Sum = __m256;
  static constexpr std::size_t kStep = 8;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 8;
  static constexpr std::size_t kTile = 3;
  HMANN_OP void Start(Sum& sum) { sum = _mm256_setzero_ps(); }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void Reduce(const Sum (&s)[4], float* values) {
    _mm_storeu_ps(values, ReduceLanes(s[0], s[1], s[2], s[3]));
  }
};

template <class Rows>
struct FloatL2 : FloatOp<Rows> {
  using C = typename Rows::Component;
  HMANN_OP void Accumulate(__m256& sum, __m256 q, __m256 row) {
    const __m256 difference = _mm256_sub_ps(q, row);
    sum = _mm256_fmadd_ps(difference, difference, sum);
  }
  HMANN_OP void Add(__m256& sum, __m256 q, const C* row) { Accumulate(sum, q, Rows::Load(row)); }
  HMANN_OP void AddTail(__m256& sum, __m256 q, const C* row, std::size_t n) {
    Accumulate(sum, q, Rows::LoadTail(row, n));
  }
};

template <class Rows>
struct FloatDot : FloatOp<Rows> {
  using C = typename Rows::Component;
  HMANN_OP void Add(__m256& sum, __m256 q, const C* row) {
    sum = _mm256_fmadd_ps(q, Rows::Load(row), sum);
  }
  HMANN_OP void AddTail(__m256& sum, __m256 q, const C* row, std::size_t n) {
    sum = _mm256_fmadd_ps(q, Rows::LoadTail(row, n), sum);
  }
};

using F32L2 = FloatL2<F32Rows>;
using F32Dot = FloatDot<F32Rows>;
using F16L2 = FloatL2<F16Rows>;
using F16Dot = FloatDot<F16Rows>;

/// Components are widened to 16 bits, and products added in pairs by vpmaddwd, which
/// cannot overflow; vpmaddubsw can.
template <class C>
struct WideOp {
  using Component = C;
  using Value = std::int32_t;
  using Block = __m256i;
  using Sum = __m256i;
  static constexpr std::size_t kStep = 16;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 8;
  static constexpr std::size_t kTile = 3;
  HMANN_OP __m256i Widen(__m128i v) {
    if constexpr (static_cast<C>(-1) < 0) return _mm256_cvtepi8_epi16(v);
    return _mm256_cvtepu8_epi16(v);
  }
  HMANN_OP Block Load(const C* q) {
    return Widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  }
  HMANN_OP Block LoadTail(const C* q, std::size_t n) {
    const Bytes16 bytes = LoadBelow16(q, n);
    return Widen(
        _mm_set_epi64x(static_cast<long long>(bytes.high), static_cast<long long>(bytes.low)));
  }
  HMANN_OP void Start(Sum& sum) { sum = _mm256_setzero_si256(); }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void Reduce(const Sum (&s)[4], Value* values) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values), ReduceLanes(s[0], s[1], s[2], s[3]));
  }
};

template <class C>
struct WideL2 : WideOp<C> {
  using Base = WideOp<C>;
  HMANN_OP void Accumulate(__m256i& sum, __m256i q, __m256i row) {
    const __m256i difference = _mm256_sub_epi16(q, row);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(difference, difference));
  }
  HMANN_OP void Add(__m256i& sum, __m256i q, const C* row) { Accumulate(sum, q, Base::Load(row)); }
  HMANN_OP void AddTail(__m256i& sum, __m256i q, const C* row, std::size_t n) {
    Accumulate(sum, q, Base::LoadTail(row, n));
  }
};

template <class C>
struct WideDot : WideOp<C> {
  using Base = WideOp<C>;
  HMANN_OP void Accumulate(__m256i& sum, __m256i q, __m256i row) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(q, row));
  }
  HMANN_OP void Add(__m256i& sum, __m256i q, const C* row) { Accumulate(sum, q, Base::Load(row)); }
  HMANN_OP void AddTail(__m256i& sum, __m256i q, const C* row, std::size_t n) {
    Accumulate(sum, q, Base::LoadTail(row, n));
  }
};

using U8L2 = WideL2<std::uint8_t>;
using U8Dot = WideDot<std::uint8_t>;
using I8L2 = WideL2<std::int8_t>;
using I8Dot = WideDot<std::int8_t>;

struct Pairs {
  using Lanes = __m256i;
  static constexpr std::size_t kLanes = 8;
  HMANN_OP Lanes Zero() { return _mm256_setzero_si256(); }
  HMANN_OP Lanes Load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  HMANN_OP Lanes Broadcast(const std::int16_t* pair) {
    std::int32_t both;
    __builtin_memcpy(&both, pair, sizeof(both));
    return _mm256_set1_epi32(both);
  }
  /// Adds in place in the sum's register: g++ 12 moves each sum of such a loop twice a
  /// step.
  HMANN_OP void Add(Lanes& sum, Lanes a, Lanes b) {
    asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(_mm256_madd_epi16(a, b)));
  }
  HMANN_OP void Store(std::int32_t* sums, Lanes lanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), lanes);
  }
};

#undef HMANN_OP

}  // namespace
}  // namespace hmann
