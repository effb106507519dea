#pragma once

#include <cstddef>
#include <cstdint>

/// What a kernels_<isa>.cc of this room exports. Nothing here may emit code (see index/distance/kernel_table.h).
namespace hmann {

struct QueryBlock;

/// dots[i] = the sum over all dimensions of query component times level, of the i-th sketch; exact in 32 bits. `dim`: padded. `query`: as
/// LayOutQuery wrote it, for the same bits and dim. Reads nothing outside the sketches.
using GatheredDots = void (*)(const QueryBlock* query, std::size_t dim, const std::byte* const* sketches, std::size_t n,
                              std::int32_t* dots);
/// The same for sketches that follow each other, `stride` bytes apart.
using StridedDots = void (*)(const QueryBlock* query, std::size_t dim, const std::byte* sketches, std::size_t stride, std::size_t n,
                             std::int32_t* dots);

struct SketchKernels {
  GatheredDots gathered[4];  ///< by bits - 1
  StridedDots strided[4];
};

const SketchKernels* ScalarSketchKernels();
const SketchKernels* Avx2SketchKernels();
const SketchKernels* Avx512SketchKernels();
const SketchKernels* NeonSketchKernels();

}  // namespace hmann
