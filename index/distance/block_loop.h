#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "index/distance/kernel_loop.h"

/// Rows against rows (Kernels::block), over the same operations and, for integers, over
/// the Pairs of an ops_<isa>.h:
///   kLanes                   sums side by side, of as many rows; 0: there are none
///   Lanes                    as many std::int32_t
///   Zero(), Load(p), Store(p, lanes)
///   Broadcast(pair)          two std::int16_t, to all lanes
///   Add(sum, a, b)           adds the products of both components
namespace hmann {
namespace {

/// kTile queries and a group of rows, each pair with its own sum, in registers. A block
/// that is loaded serves all of the other side.
template <class Op>
HMANN_INLINE void AccumulateTile(const QueryBlocks<Op, 0>* queries, const std::byte* const* rows,
                                 typename Op::Value (*values)[kGroup]) {
  using Component = typename Op::Component;
  typename Op::Sum sums[Op::kTile][kGroup];
  const Component* r[kGroup];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kGroup; ++i) r[i] = reinterpret_cast<const Component*>(rows[i]);
#pragma GCC unroll 4
  for (std::size_t t = 0; t < Op::kTile; ++t) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kGroup; ++i) sums[t][i] = queries[t].start;
  }
  for (std::size_t b = 0; b < queries[0].Full(); ++b) {
#pragma GCC unroll 4
    for (std::size_t t = 0; t < Op::kTile; ++t) {
      const typename Op::Block q = queries[t].Get(b);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kGroup; ++i) Op::Add(sums[t][i], q, r[i] + b * Op::kStep);
    }
  }
  if (const std::size_t tail = queries[0].Tail(); tail != 0) {
    const std::size_t done = queries[0].Full() * Op::kStep;
#pragma GCC unroll 4
    for (std::size_t t = 0; t < Op::kTile; ++t) {
      const typename Op::Block q = queries[t].GetTail();
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kGroup; ++i) Op::AddTail(sums[t][i], q, r[i] + done, tail);
    }
  }
#pragma GCC unroll 4
  for (std::size_t t = 0; t < Op::kTile; ++t) Op::Reduce(sums[t], values[t]);
}

/// Compares Op::kTile rows of `a` with all of `b`.
template <class Op, class Metric>
HMANN_INLINE void CompareTile(const std::byte* const* a, const std::byte* const* b, std::size_t nb,
                              std::size_t dim, DistanceKey* out, std::size_t stride) {
  static_assert(Op::kTile == 3 || Op::kTile == 4);
  const QueryBlocks<Op, 0> queries[4] = {
      {a[0], dim}, {a[1], dim}, {a[2], dim}, {a[Op::kTile - 1], dim}};
  for (std::size_t j = 0; j < nb; j += kGroup) {
    const std::size_t left = nb - j < kGroup ? nb - j : kGroup;
    const std::byte* rows[kGroup];
    for (std::size_t i = 0; i < kGroup; ++i) rows[i] = b[j + (i < left ? i : 0)];
    typename Op::Value values[Op::kTile][kGroup];
    AccumulateTile(queries, rows, values);
    for (std::size_t t = 0; t < Op::kTile; ++t) {
      for (std::size_t i = 0; i < left; ++i)
        out[t * stride + j + i] = Metric::Finish(values[t][i], a[t], rows[i], dim);
    }
  }
}

/// A square of kSide rows is compared at once, kDepth components at a time.
constexpr std::size_t kSide = 64;
constexpr std::size_t kDepth = 256;  // a multiple of 2
constexpr std::size_t kAtOnce = 4;   // rows of `a` with two vectors of lanes each

/// One side of a square, with components widened to 16 bits.
struct WideRows {
  alignas(64) std::int16_t components[kSide][kDepth + 32];  ///< row stride is no power of 2
  std::uint32_t squares[kSide];                             ///< sums so far

  template <class Component>
  void Take(const std::byte* const* rows, std::size_t n, std::size_t begin, std::size_t depth) {
    for (std::size_t r = 0; r < n; ++r) {
      const auto* row = reinterpret_cast<const Component*>(rows[r]) + begin;
      std::uint32_t sum = begin == 0 ? 0 : squares[r];
      for (std::size_t c = 0; c < depth; ++c) {
        components[r][c] = row[c];
        sum += static_cast<std::uint32_t>(std::int32_t{row[c]} * row[c]);
      }
      components[r][depth] = 0;  // the second component of an odd pair
      squares[r] = sum;
    }
  }
};

/// The other side: one pair of components of all rows, then the next pair.
struct PairedRows {
  alignas(64) std::int16_t pairs[kDepth / 2][kSide][2];

  void Take(const WideRows& rows, std::size_t n, std::size_t depth) {
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t p = 0; p < (depth + 1) / 2; ++p)
        __builtin_memcpy(pairs[p][r], &rows.components[r][2 * p], sizeof(pairs[p][r]));
    }
  }
};

/// Adds the products of kAtOnce rows with two vectors of lanes to `dots`, or stores them
/// if `first`. Each sum is its own variable, because g++ 12 moves the elements of an
/// array in every step.
template <class Pairs>
HMANN_INLINE void AddProducts(const std::int16_t* const* a, const std::int16_t (*b)[kSide][2],
                              std::size_t pairs, bool first, std::int32_t* const* dots) {
  const std::int16_t *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
  // The sums so far; zero at first.
  const auto so_far = [&](std::size_t row, std::size_t lane) __attribute__((always_inline)) {
    return first ? Pairs::Zero() : Pairs::Load(dots[row] + lane);
  };
  typename Pairs::Lanes low0 = so_far(0, 0), low1 = so_far(1, 0), low2 = so_far(2, 0),
                        low3 = so_far(3, 0);
  typename Pairs::Lanes high0 = so_far(0, Pairs::kLanes), high1 = so_far(1, Pairs::kLanes),
                        high2 = so_far(2, Pairs::kLanes), high3 = so_far(3, Pairs::kLanes);
  for (std::size_t p = 0; p < pairs; ++p) {
    const typename Pairs::Lanes low = Pairs::Load(b[p]), high = Pairs::Load(b[p] + Pairs::kLanes);
    const auto step = [&](const std::int16_t* row, typename Pairs::Lanes& sum_low,
                          typename Pairs::Lanes& sum_high) __attribute__((always_inline)) {
      const typename Pairs::Lanes pair = Pairs::Broadcast(row + 2 * p);
      Pairs::Add(sum_low, pair, low);
      Pairs::Add(sum_high, pair, high);
    };
    step(a0, low0, high0);
    step(a1, low1, high1);
    step(a2, low2, high2);
    step(a3, low3, high3);
  }
  Pairs::Store(dots[0], low0);
  Pairs::Store(dots[0] + Pairs::kLanes, high0);
  Pairs::Store(dots[1], low1);
  Pairs::Store(dots[1] + Pairs::kLanes, high1);
  Pairs::Store(dots[2], low2);
  Pairs::Store(dots[2] + Pairs::kLanes, high2);
  Pairs::Store(dots[3], low3);
  Pairs::Store(dots[3] + Pairs::kLanes, high3);
}

/// Products of all rows of a square. na and nb are rounded up to the number done at once.
template <class Pairs>
HMANN_INLINE void AddProducts(const WideRows& a, std::size_t na, const PairedRows& b,
                              std::size_t nb, std::size_t pairs, bool first,
                              std::int32_t (*dots)[kSide]) {
  for (std::size_t j = 0; j < nb; j += 2 * Pairs::kLanes) {
    for (std::size_t i = 0; i < na; i += kAtOnce) {
      const std::int16_t* rows[kAtOnce];
      std::int32_t* sums[kAtOnce];
      for (std::size_t r = 0; r < kAtOnce; ++r) {
        rows[r] = a.components[i + r];
        sums[r] = dots[i + r] + j;
      }
      AddProducts<Pairs>(rows, reinterpret_cast<const std::int16_t(*)[kSide][2]>(b.pairs[0][j]),
                         pairs, first, sums);
    }
  }
}

/// Integers: compares up to kSide rows of `b` with all of `a`.
template <class Op, class Metric>
void CompareStrip(const std::byte* const* a, std::size_t na, const std::byte* const* b,
                  std::size_t nb, std::size_t dim, DistanceKey* out, std::size_t stride) {
  using Component = typename Op::Component;
  WideRows wide_a, wide_b;
  PairedRows paired;
  alignas(64) std::int32_t dots[kSide][kSide];
  for (std::size_t i = 0; i < na; i += kSide) {
    const std::size_t rows = na - i < kSide ? na - i : kSide;
    for (std::size_t begin = 0; begin < dim; begin += kDepth) {
      const std::size_t depth = dim - begin < kDepth ? dim - begin : kDepth;
      wide_a.template Take<Component>(a + i, rows, begin, depth);
      if (i == 0 || dim > kDepth) {
        wide_b.template Take<Component>(b, nb, begin, depth);
        paired.Take(wide_b, nb, depth);
      }
      AddProducts<Pairs>(wide_a, rows, paired, nb, (depth + 1) / 2, begin == 0, dots);
    }
    for (std::size_t r = 0; r < rows; ++r) {
      DistanceKey* keys = out + (i + r) * stride;
      if constexpr (std::is_same_v<Metric, L2>) {
        // Modulo 2^32: intermediate values may overflow, but the result fits.
        const std::uint32_t own = wide_a.squares[r];
        for (std::size_t j = 0; j < nb; ++j)
          keys[j] =
              (own + wide_b.squares[j] - 2 * static_cast<std::uint32_t>(dots[r][j])) ^ 0x80000000u;
      } else {
        for (std::size_t j = 0; j < nb; ++j)
          keys[j] = Metric::Finish(dots[r][j], a[i + r], b[j], dim);
      }
    }
  }
}

template <class Op, class Metric>
void Block(const std::byte* const* a, std::size_t na, const std::byte* const* b, std::size_t nb,
           std::size_t dim, DistanceKey* out, std::size_t stride) {
  std::size_t i = 0;
  if constexpr (std::is_same_v<typename Op::Value, float>) {
    if constexpr (Op::kTile > 1) {
      for (; i + Op::kTile <= na; i += Op::kTile)
        CompareTile<Op, Metric>(a + i, b, nb, dim, out + i * stride, stride);
    }
  } else if constexpr (Pairs::kLanes > 0) {
    for (std::size_t j = 0; j < nb; j += kSide)
      CompareStrip<Op, Metric>(a, na, b + j, nb - j < kSide ? nb - j : kSide, dim, out + j, stride);
    return;
  }
  for (; i < na; ++i) Many<Op, Metric, 0>(a[i], b, nb, dim, out + i * stride);
}

}  // namespace
}  // namespace hmann
