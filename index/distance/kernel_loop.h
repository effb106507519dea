#pragma once

#include <cstddef>
#include <cstdint>

#include "hmann/types.h"

/// The one loop behind every kernel, over the operations of an ops_<isa>.h. Only
/// kernel_rows.h includes it, with block_loop.h, in a kernels_<isa>.cc after the
/// operations. Everything is local to that file.
///
/// An operation (F32L2, F32Dot, F16L2, F16Dot, U8L2, U8Dot, I8L2, I8Dot) has
///   Value                          float or std::int32_t
///   Component, kStep               component type; components per block
///   Block                          one block of the query, in registers
///   Sum                            what a row accumulates
///   kQueryRegisters                blocks that fit the registers with four sums
///   kTile                          of floats: queries with four sums each in registers
///   kQueryStarts                   whether Query does anything
///   Load(q), LoadTail(q, n)        a whole block, or n < kStep components and zeros
///   Start(sum)                     an empty sum
///   Query(sum, block)              what a sum starts with, from this block of the query
///   Add(sum, block, row), AddTail(sum, block, row, n)
///   Reduce(sums, values)           four sums to four values, each from its own sum only
namespace hmann {
namespace {

#define HMANN_INLINE __attribute__((always_inline)) inline

constexpr std::size_t kGroup =
    4;  // rows in flight: hides the latency of an accumulator and of a reduction

/// Query blocks: in registers for a fixed dim, reread from L1 for any dim.
template <class Op, std::size_t kDim>
struct QueryBlocks {
  static constexpr std::size_t kFull = kDim / Op::kStep;
  static constexpr std::size_t kTail = kDim % Op::kStep;
  typename Op::Block blocks[kFull + (kTail != 0)];
  typename Op::Sum start;

  HMANN_INLINE QueryBlocks(const std::byte* query, std::size_t) {
    Op::Start(start);
    const auto* q = reinterpret_cast<const typename Op::Component*>(query);
#pragma GCC unroll 16
    for (std::size_t b = 0; b < kFull; ++b) blocks[b] = Op::Load(q + b * Op::kStep);
    if constexpr (kTail != 0) blocks[kFull] = Op::LoadTail(q + kFull * Op::kStep, kTail);
#pragma GCC unroll 16
    for (std::size_t b = 0; b < kFull + (kTail != 0); ++b) Op::Query(start, blocks[b]);
  }
  HMANN_INLINE std::size_t Full() const { return kFull; }
  HMANN_INLINE std::size_t Tail() const { return kTail; }
  HMANN_INLINE typename Op::Block Get(std::size_t b) const { return blocks[b]; }
  HMANN_INLINE typename Op::Block GetTail() const { return blocks[kFull]; }
};

template <class Op>
struct QueryBlocks<Op, 0> {
  const typename Op::Component* q;
  std::size_t full;
  std::size_t tail;
  typename Op::Sum start;

  HMANN_INLINE QueryBlocks(const std::byte* query, std::size_t dim)
      : q(reinterpret_cast<const typename Op::Component*>(query)),
        full(dim / Op::kStep),
        tail(dim % Op::kStep) {
    Op::Start(start);
    if constexpr (Op::kQueryStarts) {
      for (std::size_t b = 0; b < full; ++b) Op::Query(start, Get(b));
      if (tail != 0) Op::Query(start, GetTail());
    }
  }
  HMANN_INLINE std::size_t Full() const { return full; }
  HMANN_INLINE std::size_t Tail() const { return tail; }
  HMANN_INLINE typename Op::Block Get(std::size_t b) const { return Op::Load(q + b * Op::kStep); }
  HMANN_INLINE typename Op::Block GetTail() const {
    return Op::LoadTail(q + full * Op::kStep, tail);
  }
};

template <std::size_t kRows, class Op, std::size_t kDim>
HMANN_INLINE void Accumulate(const QueryBlocks<Op, kDim>& query, const std::byte* const* rows,
                             typename Op::Value* values) {
  using Component = typename Op::Component;
  typename Op::Sum sums[kGroup];
  const Component* r[kRows];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRows; ++i) r[i] = reinterpret_cast<const Component*>(rows[i]);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) sums[i] = query.start;
  auto block = [&](std::size_t b) __attribute__((always_inline)) {
    const typename Op::Block q = query.Get(b);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRows; ++i) Op::Add(sums[i], q, r[i] + b * Op::kStep);
  };
  if constexpr (kDim != 0) {
#pragma GCC unroll 16
    for (std::size_t b = 0; b < kDim / Op::kStep; ++b) block(b);
  } else {
    for (std::size_t b = 0; b < query.Full(); ++b) block(b);
  }
  if (query.Tail() != 0) {
    const typename Op::Block q = query.GetTail();
    const std::size_t done = query.Full() * Op::kStep;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRows; ++i) Op::AddTail(sums[i], q, r[i] + done, query.Tail());
  }
  Op::Reduce(sums, values);
}

HMANN_INLINE DistanceKey Key(float distance) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &distance, 4);
  return bits ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) | 0x80000000u);
}
HMANN_INLINE DistanceKey Key(std::int32_t distance) {
  return static_cast<std::uint32_t>(distance) ^ 0x80000000u;
}

HMANN_INLINE float InverseNorm(const std::byte* row, std::size_t dim) {
  float norm;
  __builtin_memcpy(&norm, row + (dim + 3) / 4 * 4, 4);
  return norm;
}

struct L2 {
  template <class Value>
  static HMANN_INLINE DistanceKey Finish(Value sum, const std::byte*, const std::byte*,
                                         std::size_t) {
    return Key(sum);
  }
};
struct InnerProduct {
  template <class Value>
  static HMANN_INLINE DistanceKey Finish(Value dot, const std::byte*, const std::byte*,
                                         std::size_t) {
    return Key(Value{0} - dot);  // 0 - x, not -x: avoids negative zero
  }
};
struct Cosine {
  static HMANN_INLINE DistanceKey Finish(float dot, const std::byte*, const std::byte*,
                                         std::size_t) {
    const float d = 1.0f - dot;
    return Key(d < 0.0f ? 0.0f : d > 2.0f ? 2.0f : d);
  }
  static HMANN_INLINE DistanceKey Finish(std::int32_t dot, const std::byte* query,
                                         const std::byte* row, std::size_t dim) {
    const double d =
        1.0 - static_cast<double>(dot) * InverseNorm(query, dim) * InverseNorm(row, dim);
    return Key(static_cast<float>(d < 0.0 ? 0.0 : d > 2.0 ? 2.0 : d));
  }
};

/// Cosine of halves: |a - b|^2 / 2, which is 1 - <a, b> where norms are 1. Rounding makes
/// the norms slightly different from 1. That causes most of the error of a dot product of
/// near rows, and here it cancels.
struct HalvedL2 {
  static HMANN_INLINE DistanceKey Finish(float sum, const std::byte*, const std::byte*,
                                         std::size_t) {
    const float d = 0.5f * sum;
    return Key(d > 2.0f ? 2.0f : d);
  }
};

template <class Op, class Metric, std::size_t kDim>
DistanceKey One(const std::byte* query, const std::byte* row, std::size_t dim) {
  const QueryBlocks<Op, kDim> blocks(query, dim);
  typename Op::Value values[kGroup];
  Accumulate<1>(blocks, &row, values);
  return Metric::Finish(values[0], query, row, kDim != 0 ? kDim : dim);
}

template <class Op, class Metric, std::size_t kDim>
void Many(const std::byte* query, const std::byte* const* rows, std::size_t n, std::size_t dim,
          DistanceKey* out) {
  if (kDim != 0) dim = kDim;
  const QueryBlocks<Op, kDim> blocks(query, dim);
  typename Op::Value values[kGroup];
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    Accumulate<kGroup>(blocks, rows + i, values);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kGroup; ++j)
      out[i + j] = Metric::Finish(values[j], query, rows[i + j], dim);
  }
  // The rest also forms one group: separate rows would each wait for their own sums.
  const std::size_t left = n - i;
  if (left == 0) return;
  if (left == 1) Accumulate<1>(blocks, rows + i, values);
  if (left == 2) Accumulate<2>(blocks, rows + i, values);
  if (left == 3) Accumulate<3>(blocks, rows + i, values);
  for (std::size_t j = 0; j < left; ++j)
    out[i + j] = Metric::Finish(values[j], query, rows[i + j], dim);
}

}  // namespace
}  // namespace hmann
