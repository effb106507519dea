#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "index/distance/half.h"

/// The operations of kernel_loop.h for AVX-512 F, BW, VL and VNNI. Tails are masked
/// loads, so nothing is read past a row.
namespace hmann {
namespace {

#define HMANN_OP __attribute__((always_inline)) static inline

/// Reduces four vectors of 16 lanes to four sums. The order of additions of each row does
/// not depend on the other rows.
HMANN_OP __m128i ReduceLanes(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i abcd =
      _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half =
      _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64(abcd, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}
HMANN_OP __m128 ReduceLanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 low =
      _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)));
  const __m512 high =
      _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)));
  const __m512 abcd = _mm512_add_ps(low, high);
  const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(abcd), 1));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), upper);
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

HMANN_OP __mmask16 MaskBelow16(std::size_t n) {
  return static_cast<__mmask16>(0xffffu >> (16 - n));
}

struct F32Rows {
  using Component = float;
  HMANN_OP __m512 Load(const float* q) { return _mm512_loadu_ps(q); }
  HMANN_OP __m512 LoadTail(const float* q, std::size_t n) {
    return _mm512_maskz_loadu_ps(MaskBelow16(n), q);
  }
};

/// Widened on load.
struct F16Rows {
  using Component = Half;
  HMANN_OP __m512 Load(const Half* q) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(q)));
  }
  HMANN_OP __m512 LoadTail(const Half* q, std::size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(MaskBelow16(n), q));
  }
};

template <class Rows>
struct FloatOp : Rows {
  using Value = float;
  using Block = __m512;
  using Sum = __m512;
  static constexpr std::size_t kStep = 16;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 16;
  static constexpr std::size_t kTile = 4;
  HMANN_OP void Start(Sum& sum) { sum = _mm512_setzero_ps(); }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void Reduce(const Sum (&s)[4], float* values) {
    _mm_storeu_ps(values, ReduceLanes(s[0], s[1], s[2], s[3]));
  }
};

template <class Rows>
struct FloatL2 : FloatOp<Rows> {
  using C = typename Rows::Component;
  HMANN_OP void Accumulate(__m512& sum, __m512 q, __m512 row) {
    const __m512 difference = _mm512_sub_ps(q, row);
    sum = _mm512_fmadd_ps(difference, difference, sum);
  }
  HMANN_OP void Add(__m512& sum, __m512 q, const C* row) { Accumulate(sum, q, Rows::Load(row)); }
  HMANN_OP void AddTail(__m512& sum, __m512 q, const C* row, std::size_t n) {
    Accumulate(sum, q, Rows::LoadTail(row, n));
  }
};

template <class Rows>
struct FloatDot : FloatOp<Rows> {
  using C = typename Rows::Component;
  HMANN_OP void Add(__m512& sum, __m512 q, const C* row) {
    sum = _mm512_fmadd_ps(q, Rows::Load(row), sum);
  }
  HMANN_OP void AddTail(__m512& sum, __m512 q, const C* row, std::size_t n) {
    sum = _mm512_fmadd_ps(q, Rows::LoadTail(row, n), sum);
  }
};

using F32L2 = FloatL2<F32Rows>;
using F32Dot = FloatDot<F32Rows>;
using F16L2 = FloatL2<F16Rows>;
using F16Dot = FloatDot<F16Rows>;

struct IntOp {
  using Value = std::int32_t;
  using Block = __m512i;
  using Sum = __m512i;
  HMANN_OP void Start(Sum& sum) { sum = _mm512_setzero_si512(); }
  HMANN_OP void Reduce(const Sum (&s)[4], Value* values) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values), ReduceLanes(s[0], s[1], s[2], s[3]));
  }
};

/// Components are widened to 16 bits; differences are squared and added in pairs by
/// vpdpwssd.
template <class C>
struct WideL2 : IntOp {
  using Component = C;
  static constexpr std::size_t kStep = 32;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 16;
  static constexpr std::size_t kTile = 4;
  HMANN_OP __m512i Widen(__m256i v) {
    if constexpr (static_cast<C>(-1) < 0) return _mm512_cvtepi8_epi16(v);
    return _mm512_cvtepu8_epi16(v);
  }
  HMANN_OP Block Load(const C* q) {
    return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(q)));
  }
  HMANN_OP Block LoadTail(const C* q, std::size_t n) {
    return Widen(_mm256_maskz_loadu_epi8(0xffffffffu >> (32 - n), q));
  }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void Accumulate(Sum& sum, Block q, __m512i row) {
    const __m512i difference = _mm512_sub_epi16(q, row);
    sum = _mm512_dpwssd_epi32(sum, difference, difference);
  }
  HMANN_OP void Add(Sum& sum, Block q, const C* row) { Accumulate(sum, q, Load(row)); }
  HMANN_OP void AddTail(Sum& sum, Block q, const C* row, std::size_t n) {
    Accumulate(sum, q, LoadTail(row, n));
  }
};
using U8L2 = WideL2<std::uint8_t>;
using I8L2 = WideL2<std::int8_t>;

struct ByteDot : IntOp {
  static constexpr std::size_t kStep = 64;
  static constexpr bool kQueryStarts = true;
  static constexpr std::size_t kQueryRegisters = 16;
  static constexpr std::size_t kTile = 4;
  HMANN_OP Block LoadBytes(const void* q) { return _mm512_loadu_si512(q); }
  HMANN_OP Block LoadBytesTail(const void* q, std::size_t n) {
    return _mm512_maskz_loadu_epi8(~std::uint64_t{0} >> (64 - n), q);
  }
  HMANN_OP __m512i FlipSign(__m512i v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
};

/// vpdpbusd multiplies unsigned by signed: it sums q * (row - 128), starting from 128 q.
struct U8Dot : ByteDot {
  using Component = std::uint8_t;
  HMANN_OP Block Load(const Component* q) { return LoadBytes(q); }
  HMANN_OP Block LoadTail(const Component* q, std::size_t n) { return LoadBytesTail(q, n); }
  HMANN_OP void Query(Sum& sum, Block q) {
    const __m512i half = _mm512_set1_epi8(64);
    sum = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, q, half), q, half);
  }
  HMANN_OP void Add(Sum& sum, Block q, const Component* row) {
    sum = _mm512_dpbusd_epi32(sum, q, FlipSign(Load(row)));
  }
  HMANN_OP void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    sum = _mm512_dpbusd_epi32(sum, q, FlipSign(LoadTail(row, n)));
  }
};

/// Sums (row + 128) * q, starting from -128 q.
struct I8Dot : ByteDot {
  using Component = std::int8_t;
  HMANN_OP Block Load(const Component* q) { return LoadBytes(q); }
  HMANN_OP Block LoadTail(const Component* q, std::size_t n) { return LoadBytesTail(q, n); }
  HMANN_OP void Query(Sum& sum, Block q) {
    sum = _mm512_sub_epi32(sum,
                           _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(-128), q));
  }
  HMANN_OP void Add(Sum& sum, Block q, const Component* row) {
    sum = _mm512_dpbusd_epi32(sum, FlipSign(Load(row)), q);
  }
  HMANN_OP void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    sum = _mm512_dpbusd_epi32(sum, FlipSign(LoadTail(row, n)), q);
  }
};

struct Pairs {
  using Lanes = __m512i;
  static constexpr std::size_t kLanes = 16;
  HMANN_OP Lanes Zero() { return _mm512_setzero_si512(); }
  HMANN_OP Lanes Load(const void* p) { return _mm512_loadu_si512(static_cast<const __m512i*>(p)); }
  HMANN_OP Lanes Broadcast(const std::int16_t* pair) {
    std::int32_t both;
    __builtin_memcpy(&both, pair, sizeof(both));
    return _mm512_set1_epi32(both);
  }
  /// Adds in place in the sum's register: g++ 12 moves each sum of such a loop twice a
  /// step.
  HMANN_OP void Add(Lanes& sum, Lanes a, Lanes b) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
  HMANN_OP void Store(std::int32_t* sums, Lanes lanes) {
    _mm512_storeu_si512(reinterpret_cast<__m512i*>(sums), lanes);
  }
};

#undef HMANN_OP

}  // namespace
}  // namespace hmann
