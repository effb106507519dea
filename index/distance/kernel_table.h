#pragma once

#include <cstddef>
#include <cstdint>

#include "hmann/types.h"

/// What a kernels_<isa>.cc exports. Nothing here may emit code: an inline function that a
/// file compiled for AVX-512 emits is a weak symbol, and the linker may keep that copy
/// for everyone.
namespace hmann {

struct KernelRow {
  DType dtype;
  Metric metric;
  std::uint32_t dim;  ///< 0: any
  DistanceKey (*one)(const std::byte* query, const std::byte* row, std::size_t dim);
  void (*many)(const std::byte* query, const std::byte* const* rows, std::size_t n, std::size_t dim,
               DistanceKey* out);
  void (*block)(const std::byte* const* a, std::size_t na, const std::byte* const* b,
                std::size_t nb, std::size_t dim, DistanceKey* out, std::size_t stride);
};

/// Rows for one dim stand before the row for any dim of the same dtype and metric: the
/// first that fits is meant.
struct KernelTable {
  const KernelRow* rows;
  std::size_t size;
};

KernelTable ScalarKernels();
KernelTable Avx2Kernels();
KernelTable Avx512Kernels();
KernelTable NeonKernels();

}  // namespace hmann
