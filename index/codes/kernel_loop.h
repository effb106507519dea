#pragma once

#include <cstddef>
#include <cstdint>

#include "index/codes/code_layout.h"
#include "index/codes/kernel_table.h"

/// The one loop behind every kernel of this folder, over the operations `Ops` that a
/// kernels_<isa>.cc defines before it includes this. Everything is local to that file.
///
///   Sum                              what a code accumulates
///   Start(sum)                       an empty sum
///   Add<bits>(sums, query, codes)    one whole block (128 dimensions) of four codes;
///                                    query: its 128 signed bytes
///   AddTail<bits>(sums, query, codes, bytes)
///                                    a block of fewer, 0 < bytes < 16 bits of each code
///   AddSquares(sums, codes), AddSquaresTail(sums, codes, bytes)
///                                    squares of the levels of such a block, 4 bits
///   Reduce(sums, dots)               four sums to four integers
namespace hmann {
namespace {

#define HMANN_INLINE __attribute__((always_inline)) inline

constexpr std::size_t kGroup = 4;  // codes in flight

template <unsigned kBits>
HMANN_INLINE void DotsOfGroup(const std::int8_t* query, std::size_t dim,
                              const std::byte* const (&codes)[kGroup], std::int32_t* dots) {
  typename Ops::Sum sums[kGroup];
  const std::uint8_t* at[kGroup];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) {
    Ops::Start(sums[i]);
    at[i] = reinterpret_cast<const std::uint8_t*>(codes[i]) + kFactorBytes;
  }
  for (; dim >= kBlockDims; dim -= kBlockDims, query += kBlockDims) {
    Ops::template Add<kBits>(sums, query, at);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kGroup; ++i) at[i] += LevelBytes(kBlockDims, kBits);
  }
  if (dim != 0) Ops::template AddTail<kBits>(sums, query, at, LevelBytes(dim, kBits));
  Ops::Reduce(sums, dots);
}

template <unsigned kBits, class Address>
HMANN_INLINE void AllDots(const std::int8_t* query, std::size_t dim, const Address& address,
                          std::size_t n, std::int32_t* dots) {
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    const std::byte* const codes[kGroup] = {address(i), address(i + 1), address(i + 2),
                                            address(i + 3)};
    DotsOfGroup<kBits>(query, dim, codes, dots + i);
  }
  if (i == n) return;
  const std::byte* const codes[kGroup] = {address(i), address(i + 1 < n ? i + 1 : i),
                                          address(i + 2 < n ? i + 2 : i), address(i)};
  std::int32_t last[kGroup];
  DotsOfGroup<kBits>(query, dim, codes, last);
  dots[i] = last[0];  // a loop would become a memcpy call; a kernel file calls nothing
  if (n - i > 1) dots[i + 1] = last[1];
  if (n - i > 2) dots[i + 2] = last[2];
}

template <unsigned kBits>
void Gathered(const QueryBlock* query, std::size_t dim, const std::byte* const* codes,
              std::size_t n, std::int32_t* dots) {
  const auto address = [=](std::size_t i) __attribute__((always_inline)) { return codes[i]; };
  AllDots<kBits>(reinterpret_cast<const std::int8_t*>(query), dim, address, n, dots);
}

template <unsigned kBits>
void Strided(const QueryBlock* query, std::size_t dim, const std::byte* codes, std::size_t stride,
             std::size_t n, std::int32_t* dots) {
  const auto address = [=](std::size_t i) __attribute__((always_inline)) {
    return codes + i * stride;
  };
  AllDots<kBits>(reinterpret_cast<const std::int8_t*>(query), dim, address, n, dots);
}

/// Scalar quantization: keys of four codes.
template <bool kL2>
HMANN_INLINE void ScalarGroup(const std::byte* query, std::size_t dim,
                              const std::byte* const (&codes)[kGroup], std::uint32_t* keys) {
  typename Ops::Sum dots[kGroup], squares[kGroup];
  const std::uint8_t* at[kGroup];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) {
    Ops::Start(dots[i]);
    Ops::Start(squares[i]);
    at[i] = reinterpret_cast<const std::uint8_t*>(codes[i]);
  }
  const auto* q = reinterpret_cast<const std::int8_t*>(query);
  std::size_t left = (dim + 7) / 8 * 8;
  for (; left >= kBlockDims; left -= kBlockDims, q += kBlockDims) {
    Ops::template Add<4>(dots, q, at);
    if constexpr (kL2) Ops::AddSquares(squares, at);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kGroup; ++i) at[i] += LevelBytes(kBlockDims, 4);
  }
  if (left != 0) {
    Ops::template AddTail<4>(dots, q, at, LevelBytes(left, 4));
    if constexpr (kL2) Ops::AddSquaresTail(squares, at, LevelBytes(left, 4));
    q += kBlockDims;
  }
  std::int32_t norm, dot[kGroup], square[kGroup];
  __builtin_memcpy(&norm, q, sizeof(norm));
  Ops::Reduce(dots, dot);
  if constexpr (kL2) Ops::Reduce(squares, square);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) {
    const std::int32_t distance = kL2 ? norm + 16 * (4 * square[i] - dot[i]) : -dot[i];
    keys[i] = static_cast<std::uint32_t>(distance) ^ 0x80000000u;
  }
}

template <bool kL2>
void ScalarMany(const std::byte* query, const std::byte* const* codes, std::size_t n,
                std::size_t dim, std::uint32_t* keys) {
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    const std::byte* const group[kGroup] = {codes[i], codes[i + 1], codes[i + 2], codes[i + 3]};
    ScalarGroup<kL2>(query, dim, group, keys + i);
  }
  if (i == n) return;
  const std::byte* const group[kGroup] = {codes[i], codes[i + 1 < n ? i + 1 : i],
                                          codes[i + 2 < n ? i + 2 : i], codes[i]};
  std::uint32_t last[kGroup];
  ScalarGroup<kL2>(query, dim, group, last);
  keys[i] = last[0];
  if (n - i > 1) keys[i + 1] = last[1];
  if (n - i > 2) keys[i + 2] = last[2];
}

template <bool kL2>
std::uint32_t ScalarOne(const std::byte* query, const std::byte* code, std::size_t dim) {
  std::uint32_t key;
  ScalarMany<kL2>(query, &code, 1, dim, &key);
  return key;
}

constexpr CodeKernels kTable = {{Gathered<1>, Gathered<2>, Gathered<4>},
                                {Strided<1>, Strided<2>, Strided<4>},
                                {ScalarOne<true>, ScalarOne<false>},
                                {ScalarMany<true>, ScalarMany<false>}};

}  // namespace
}  // namespace hmann
