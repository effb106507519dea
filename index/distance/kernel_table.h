#pragma once

#include <cstddef>
#include <cstdint>

#include "hmann/types.h"

/// The exports of a kernels_<isa>.cc. Nothing here may emit code. An inline function
/// emitted by a file compiled for AVX-512 is a weak symbol, and the linker may keep that
/// copy for all callers.
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

/// Rows for one dim precede the row for any dim of the same dtype and metric. The first
/// row that fits is used.
struct KernelTable {
  const KernelRow* rows;
  std::size_t size;
};

KernelTable ScalarKernels();
KernelTable Avx2Kernels();
KernelTable Avx512Kernels();
KernelTable NeonKernels();

}  // namespace hmann
