#pragma once

#include <cstddef>
#include <cstdint>

#include "index/sketch/code_layout.h"
#include "index/sketch/kernel_table.h"

/// The one loop behind every kernel of this room, over the operations `Ops` that a kernels_<isa>.cc defines before it includes this. All
/// of it is local to that file.
///
///   Sum                              what a code accumulates
///   Start(sum)                       an empty sum
///   TimesFour(sum)
///   Add<width>(sums, query, codes)   one whole block (128 dimensions) of four codes; query: its 128 signed bytes
///   AddTail<width>(sums, query, codes, bytes)   a block of fewer, 0 < bytes < 16 width of each code
///   Reduce(sums, dots)               four sums to four integers
namespace hmann {
namespace {

#define HMANN_INLINE __attribute__((always_inline)) inline

constexpr std::size_t kGroup = 4;  // codes in flight

struct Part {
  const std::int8_t* query;
  std::size_t offset;  ///< of the part in a sketch
};

template <unsigned kWidth>
HMANN_INLINE void AddPart(Ops::Sum (&sums)[kGroup], const Part& part, const std::byte* const (&sketches)[kGroup], std::size_t dim) {
  const std::uint8_t* codes[kGroup];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) codes[i] = reinterpret_cast<const std::uint8_t*>(sketches[i]) + part.offset;
  const std::int8_t* query = part.query;
  for (; dim >= kBlockDims; dim -= kBlockDims, query += kBlockDims) {
    Ops::template Add<kWidth>(sums, query, codes);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kGroup; ++i) codes[i] += PartBytes(kBlockDims, kWidth);
  }
  if (dim != 0) Ops::template AddTail<kWidth>(sums, query, codes, PartBytes(dim, kWidth));
}

template <unsigned kBits>
HMANN_INLINE void DotsOfGroup(const std::int8_t* query, std::size_t dim, const std::byte* const (&sketches)[kGroup], std::int32_t* dots) {
  typename Ops::Sum sums[kGroup];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) Ops::Start(sums[i]);
  if constexpr (kBits == 3) {
    AddPart<1>(sums, {query, kFactorBytes}, sketches, dim);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kGroup; ++i) Ops::TimesFour(sums[i]);
    const std::size_t query_bytes = (dim + kBlockDims - 1) / kBlockDims * kBlockDims;
    AddPart<2>(sums, {query + query_bytes, kFactorBytes + PartBytes(dim, 1)}, sketches, dim);
  } else {
    AddPart<kBits>(sums, {query, kFactorBytes}, sketches, dim);
  }
  Ops::Reduce(sums, dots);
}

template <unsigned kBits, class Address>
HMANN_INLINE void AllDots(const std::int8_t* query, std::size_t dim, const Address& address, std::size_t n, std::int32_t* dots) {
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    const std::byte* const sketches[kGroup] = {address(i), address(i + 1), address(i + 2), address(i + 3)};
    DotsOfGroup<kBits>(query, dim, sketches, dots + i);
  }
  if (i == n) return;
  const std::byte* const sketches[kGroup] = {address(i), address(i + 1 < n ? i + 1 : i), address(i + 2 < n ? i + 2 : i), address(i)};
  std::int32_t last[kGroup];
  DotsOfGroup<kBits>(query, dim, sketches, last);
  dots[i] = last[0];  // a loop becomes a call of memcpy, and a kernel file calls nothing
  if (n - i > 1) dots[i + 1] = last[1];
  if (n - i > 2) dots[i + 2] = last[2];
}

template <unsigned kBits>
void Gathered(const QueryBlock* query, std::size_t dim, const std::byte* const* sketches, std::size_t n, std::int32_t* dots) {
  const auto address = [=](std::size_t i) __attribute__((always_inline)) { return sketches[i]; };
  AllDots<kBits>(reinterpret_cast<const std::int8_t*>(query), dim, address, n, dots);
}

template <unsigned kBits>
void Strided(const QueryBlock* query, std::size_t dim, const std::byte* sketches, std::size_t stride, std::size_t n, std::int32_t* dots) {
  const auto address = [=](std::size_t i) __attribute__((always_inline)) { return sketches + i * stride; };
  AllDots<kBits>(reinterpret_cast<const std::int8_t*>(query), dim, address, n, dots);
}

constexpr SketchKernels kTable = {{Gathered<1>, Gathered<2>, Gathered<3>, Gathered<4>}, {Strided<1>, Strided<2>, Strided<3>, Strided<4>}};

}  // namespace
}  // namespace hmann
