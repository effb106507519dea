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

/// By KernelOf(bits).
struct CodeKernels {
  GatheredDots gathered[3];
  StridedDots strided[3];
};
/// 1, 2 and 4 bits.
__attribute__((always_inline)) constexpr std::size_t KernelOf(unsigned bits) { return bits / 2; }

const CodeKernels* ScalarCodeKernels();
const CodeKernels* Avx2CodeKernels();
const CodeKernels* Avx512CodeKernels();
const CodeKernels* NeonCodeKernels();

}  // namespace hmann
