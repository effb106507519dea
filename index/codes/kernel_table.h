#pragma once

#include <cstddef>
#include <cstdint>

/// What a kernels_<isa>.cc of this room exports. Nothing here may emit code (see
/// index/distance/kernel_table.h).
namespace hmann {

struct QueryBlock;

/// dots[i] = the sum over all dimensions of query component times level, of the i-th
/// code; exact in 32 bits. `dim`: padded. `query`: as LayOutQuery wrote it, for the same
/// bits and dim. Reads nothing outside the codes.
using GatheredDots = void (*)(const QueryBlock* query, std::size_t dim,
                              const std::byte* const* codes, std::size_t n, std::int32_t* dots);
/// The same for codes that follow each other, `stride` bytes apart.
using StridedDots = void (*)(const QueryBlock* query, std::size_t dim, const std::byte* codes,
                             std::size_t stride, std::size_t n, std::int32_t* dots);

/// Distances to codes of scalar quantisation (scalar_quantiser.h), 4 bits a dimension, no
/// factors: keys as Kernels::one and Kernels::many give those of rows. `query`: blocks of
/// LayOutQuery, then an i32; `dim`: not padded. Under L2 keys are of |q - 8 u|^2, the i32
/// being |q|^2, under inner product of -<q, u>: exact integers, u the levels of a code.
using ScalarOne = std::uint32_t (*)(const std::byte* query, const std::byte* code, std::size_t dim);
using ScalarMany = void (*)(const std::byte* query, const std::byte* const* codes, std::size_t n,
                            std::size_t dim, std::uint32_t* keys);

/// By KernelOf(bits).
struct CodeKernels {
  GatheredDots gathered[3];
  StridedDots strided[3];
  ScalarOne scalar_one[2];    ///< L2, inner product
  ScalarMany scalar_many[2];  ///< likewise
};
/// 1, 2 and 4 bits.
__attribute__((always_inline)) constexpr std::size_t KernelOf(unsigned bits) { return bits / 2; }

const CodeKernels* ScalarCodeKernels();
const CodeKernels* Avx2CodeKernels();
const CodeKernels* Avx512CodeKernels();
const CodeKernels* NeonCodeKernels();

}  // namespace hmann
