#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "index/distance/half.h"
#include "index/distance/ops_tail.h"

/// The operations of kernel_loop.h for Advanced SIMD as in every ARMv8-A, without the
/// dot-product extension.
namespace hmann {
namespace {

#define HMANN_OP __attribute__((always_inline)) static inline

HMANN_OP uint8x16_t LoadTailBytes(const void* p, std::size_t n) {
  const Bytes16 bytes = LoadBelow16(p, n);
  return vcombine_u8(vcreate_u8(bytes.low), vcreate_u8(bytes.high));
}

struct F32Rows {
  using Component = float;
  HMANN_OP float32x4_t Load(const float* q) { return vld1q_f32(q); }
  HMANN_OP float32x4_t LoadTail(const float* q, std::size_t n) {
    return vreinterpretq_f32_u8(LoadTailBytes(q, n * sizeof(float)));
  }
};

/// Widened on load, which every ARMv8-A supports. Arithmetic on halves is an extension.
struct F16Rows {
  using Component = Half;
  HMANN_OP float32x4_t Widen(std::uint64_t halves) {
    return vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(halves)));
  }
  HMANN_OP float32x4_t Load(const Half* q) {
    return Widen(LoadWord<std::uint64_t>(reinterpret_cast<const unsigned char*>(q)));
  }
  HMANN_OP float32x4_t LoadTail(const Half* q, std::size_t n) {
    return Widen(LoadBelow8(reinterpret_cast<const unsigned char*>(q), n * sizeof(Half)));
  }
};

template <class Rows>
struct FloatOp : Rows {
  using Value = float;
  using Block = float32x4_t;
  using Sum = float32x4_t;
  static constexpr std::size_t kStep = 4;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 16;
  static constexpr std::size_t kTile = 4;
  HMANN_OP void Start(Sum& sum) { sum = vdupq_n_f32(0); }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void Reduce(const Sum (&s)[4], float* values) {
    vst1q_f32(values, vpaddq_f32(vpaddq_f32(s[0], s[1]), vpaddq_f32(s[2], s[3])));
  }
};

template <class Rows>
struct FloatL2 : FloatOp<Rows> {
  using C = typename Rows::Component;
  HMANN_OP void Accumulate(float32x4_t& sum, float32x4_t q, float32x4_t row) {
    const float32x4_t difference = vsubq_f32(q, row);
    sum = vfmaq_f32(sum, difference, difference);
  }
  HMANN_OP void Add(float32x4_t& sum, float32x4_t q, const C* row) {
    Accumulate(sum, q, Rows::Load(row));
  }
  HMANN_OP void AddTail(float32x4_t& sum, float32x4_t q, const C* row, std::size_t n) {
    Accumulate(sum, q, Rows::LoadTail(row, n));
  }
};

template <class Rows>
struct FloatDot : FloatOp<Rows> {
  using C = typename Rows::Component;
  HMANN_OP void Add(float32x4_t& sum, float32x4_t q, const C* row) {
    sum = vfmaq_f32(sum, q, Rows::Load(row));
  }
  HMANN_OP void AddTail(float32x4_t& sum, float32x4_t q, const C* row, std::size_t n) {
    sum = vfmaq_f32(sum, q, Rows::LoadTail(row, n));
  }
};

using F32L2 = FloatL2<F32Rows>;
using F32Dot = FloatDot<F32Rows>;
using F16L2 = FloatL2<F16Rows>;
using F16Dot = FloatDot<F16Rows>;

struct U8Op {
  using Component = std::uint8_t;
  using Value = std::int32_t;
  using Block = uint8x16_t;
  using Sum = uint32x4_t;
  static constexpr std::size_t kStep = 16;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 16;
  static constexpr std::size_t kTile = 4;
  HMANN_OP Block Load(const Component* q) { return vld1q_u8(q); }
  HMANN_OP Block LoadTail(const Component* q, std::size_t n) { return LoadTailBytes(q, n); }
  HMANN_OP void Start(Sum& sum) { sum = vdupq_n_u32(0); }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void AddProducts(Sum& sum, uint8x16_t a, uint8x16_t b) {
    sum = vpadalq_u16(sum, vmull_u8(vget_low_u8(a), vget_low_u8(b)));
    sum = vpadalq_u16(sum, vmull_high_u8(a, b));
  }
  HMANN_OP void Reduce(const Sum (&s)[4], Value* values) {
    vst1q_s32(values,
              vreinterpretq_s32_u32(vpaddq_u32(vpaddq_u32(s[0], s[1]), vpaddq_u32(s[2], s[3]))));
  }
};

struct U8L2 : U8Op {
  HMANN_OP void Accumulate(Sum& sum, Block q, Block row) {
    const uint8x16_t difference = vabdq_u8(q, row);
    AddProducts(sum, difference, difference);
  }
  HMANN_OP void Add(Sum& sum, Block q, const Component* row) { Accumulate(sum, q, Load(row)); }
  HMANN_OP void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    Accumulate(sum, q, LoadTail(row, n));
  }
};

struct U8Dot : U8Op {
  HMANN_OP void Add(Sum& sum, Block q, const Component* row) { AddProducts(sum, q, Load(row)); }
  HMANN_OP void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    AddProducts(sum, q, LoadTail(row, n));
  }
};

/// With its sign bit flipped, an i8 becomes a u8 that is 128 larger, so differences are
/// unchanged.
struct I8L2 : U8Op {
  using Component = std::int8_t;
  HMANN_OP uint8x16_t Flip(uint8x16_t v) { return veorq_u8(v, vdupq_n_u8(128)); }
  HMANN_OP Block Load(const Component* q) {
    return Flip(vld1q_u8(reinterpret_cast<const std::uint8_t*>(q)));
  }
  HMANN_OP Block LoadTail(const Component* q, std::size_t n) { return Flip(LoadTailBytes(q, n)); }
  HMANN_OP void Add(Sum& sum, Block q, const Component* row) {
    U8L2::Accumulate(sum, q, Load(row));
  }
  HMANN_OP void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    U8L2::Accumulate(sum, q, LoadTail(row, n));
  }
};

struct I8Dot {
  using Component = std::int8_t;
  using Value = std::int32_t;
  using Block = int8x16_t;
  using Sum = int32x4_t;
  static constexpr std::size_t kStep = 16;
  static constexpr bool kQueryStarts = false;
  static constexpr std::size_t kQueryRegisters = 16;
  static constexpr std::size_t kTile = 4;
  HMANN_OP Block Load(const Component* q) { return vld1q_s8(q); }
  HMANN_OP Block LoadTail(const Component* q, std::size_t n) {
    return vreinterpretq_s8_u8(LoadTailBytes(q, n));
  }
  HMANN_OP void Start(Sum& sum) { sum = vdupq_n_s32(0); }
  HMANN_OP void Query(Sum&, Block) {}
  HMANN_OP void Accumulate(Sum& sum, Block q, Block row) {
    sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(q), vget_low_s8(row)));
    sum = vpadalq_s16(sum, vmull_high_s8(q, row));
  }
  HMANN_OP void Add(Sum& sum, Block q, const Component* row) { Accumulate(sum, q, Load(row)); }
  HMANN_OP void AddTail(Sum& sum, Block q, const Component* row, std::size_t n) {
    Accumulate(sum, q, LoadTail(row, n));
  }
  HMANN_OP void Reduce(const Sum (&s)[4], Value* values) {
    vst1q_s32(values, vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3])));
  }
};

/// Blocks of integers are compared row by row.
struct Pairs {
  static constexpr std::size_t kLanes = 0;
};

#undef HMANN_OP

}  // namespace
}  // namespace hmann
