#pragma once

#include "index/distance/block_loop.h"
#include "index/distance/kernel_loop.h"
#include "index/distance/kernel_table.h"

/// Instantiates the loops for every line of kernel_list.def: the exports of a
/// kernels_<isa>.cc.
namespace hmann {
namespace {

template <DType kType, class Metric>
struct OpOf;
template <class Metric>
struct OpOf<DType::kF32, Metric> {
  using Op = F32Dot;
};
template <class Metric>
struct OpOf<DType::kF16, Metric> {
  using Op = F16Dot;
};
template <class Metric>
struct OpOf<DType::kU8, Metric> {
  using Op = U8Dot;
};
template <class Metric>
struct OpOf<DType::kI8, Metric> {
  using Op = I8Dot;
};
template <>
struct OpOf<DType::kF32, L2> {
  using Op = F32L2;
};
template <>
struct OpOf<DType::kF16, L2> {
  using Op = F16L2;
};
template <>
struct OpOf<DType::kF16, Cosine> {
  using Op = F16L2;
};
template <>
struct OpOf<DType::kU8, L2> {
  using Op = U8L2;
};
template <>
struct OpOf<DType::kI8, L2> {
  using Op = I8L2;
};

template <DType kType, class Metric>
using OpFor = typename OpOf<kType, Metric>::Op;

/// How a distance is computed from an operation's sum.
template <DType kType, class Metric>
struct FinishOf {
  using Rule = Metric;
};
template <>
struct FinishOf<DType::kF16, Cosine> {
  using Rule = HalvedL2;
};

template <DType kType, class Metric>
using FinishFor = typename FinishOf<kType, Metric>::Rule;

/// The dim for which a kernel is compiled; any, where the query would not fit the
/// registers.
template <class Op>
constexpr std::size_t FixedDim(std::size_t dim) {
  return (dim + Op::kStep - 1) / Op::kStep <= Op::kQueryRegisters ? dim : 0;
}

#define HMANN_KERNEL(type, metric, dim)                                   \
  {DType::k##type,                                                        \
   Metric::k##metric,                                                     \
   dim,                                                                   \
   One<OpFor<DType::k##type, metric>, FinishFor<DType::k##type, metric>,  \
       FixedDim<OpFor<DType::k##type, metric>>(dim)>,                     \
   Many<OpFor<DType::k##type, metric>, FinishFor<DType::k##type, metric>, \
        FixedDim<OpFor<DType::k##type, metric>>(dim)>,                    \
   Block<OpFor<DType::k##type, metric>, FinishFor<DType::k##type, metric>>},
constexpr KernelRow kRows[] = {
#include "index/distance/kernel_list.def"
};
#undef HMANN_KERNEL
constexpr KernelTable kTable = {kRows, sizeof(kRows) / sizeof(kRows[0])};

}  // namespace
}  // namespace hmann
