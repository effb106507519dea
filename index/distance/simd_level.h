#pragma once

#include <cstddef>

#include "index/distance/kernel_table.h"

namespace hmann {

struct SimdLevel {
  const char* name;  ///< "scalar", "avx2", "avx512", "neon"
  KernelTable (*table)();
  bool (*supported)();  ///< the CPU has the instructions and the OS saves the registers
};

struct SimdLevels {
  const SimdLevel* levels;
  std::size_t size;
  const SimdLevel* begin() const { return levels; }
  const SimdLevel* end() const { return levels + size; }
};

/// The levels compiled into this build, best first. The last one, scalar, is always
/// supported.
SimdLevels BuiltSimdLevels();

/// The row of `table` for these arguments; never nullptr, because each table has a row
/// for any dim.
const KernelRow* FindKernel(const KernelTable& table, DType dtype, Metric metric, std::size_t dim);

}  // namespace hmann
