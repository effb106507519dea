// The loop is written over the operations, so they come first.
// clang-format off
#include "index/distance/ops_avx512.h"
#include "index/distance/kernel_rows.h"
// clang-format on

namespace hmann {

KernelTable Avx512Kernels() { return kTable; }

}  // namespace hmann
