#pragma once

#include <cstddef>
#include <cstdint>

/// The exports of a kernels_<isa>.cc in this folder. Nothing here may emit code (see
/// index/distance/kernel_table.h).
namespace hmann {

struct QueryBlock;

/// dots[i] = the sum over all dimensions of query component times level, for the i-th
/// code; exact in 32 bits. `dim`: padded. `query`: as LayOutQuery wrote it, for the same
/// bits and dim. Reads nothing outside the codes.
using GatheredDots = void (*)(const QueryBlock* query, std::size_t dim,
                              const std::byte* const* codes, std::size_t n, std::int32_t* dots);
/// The same for consecutive codes, `stride` bytes apart.
using StridedDots = void (*)(const QueryBlock* query, std::size_t dim, const std::byte* codes,
                             std::size_t stride, std::size_t n, std::int32_t* dots);

/// Distances to codes of scalar quantization (scalar_quantizer.h) with 4 bits a dimension
/// and no factors. The keys are like those of Kernels::one and Kernels::many for rows.
/// `query`: blocks from LayOutQuery, then an i32; `dim`: not padded. With u the levels of
/// a code, keys are exact integers: of |q - 8 u|^2 under L2, where the i32 is |q|^2, and
/// of -<q, u> under inner product.
using ScalarOne = std::uint32_t (*)(const std::byte* query, const std::byte* code, std::size_t dim);
using ScalarMany = void (*)(const std::byte* query, const std::byte* const* codes, std::size_t n,
                            std::size_t dim, std::uint32_t* keys);

/// Indexed by KernelOf(bits).
struct CodeKernels {
  GatheredDots gathered[3];
  StridedDots strided[3];
  ScalarOne scalar_one[2];    ///< L2, inner product
  ScalarMany scalar_many[2];  ///< likewise
};
/// For 1, 2 and 4 bits.
__attribute__((always_inline)) constexpr std::size_t KernelOf(unsigned bits) { return bits / 2; }

const CodeKernels* ScalarCodeKernels();
const CodeKernels* Avx2CodeKernels();
const CodeKernels* Avx512CodeKernels();
const CodeKernels* NeonCodeKernels();

}  // namespace hmann
