#pragma once

#include <cstddef>
#include <cstdint>

#include "index/codes/code_layout.h"
#include "index/codes/kernel_table.h"

/// The one loop behind every kernel of this room, over the operations `Ops` that a
/// kernels_<isa>.cc defines before it includes this. All of it is local to that file.
///
///   Sum                              what a code accumulates
///   Start(sum)                       an empty sum
///   Add<bits>(sums, query, codes)    one whole block (128 dimensions) of four codes;
///                                    query: its 128 signed bytes
///   AddTail<bits>(sums, query, codes, bytes)
///                                    a block of fewer, 0 < bytes < 16 bits of each code
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
  dots[i] = last[0];  // a loop becomes a call of memcpy, and a kernel file calls nothing
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

constexpr CodeKernels kTable = {{Gathered<1>, Gathered<2>, Gathered<4>},
                                {Strided<1>, Strided<2>, Strided<4>}};

}  // namespace
}  // namespace hmann
