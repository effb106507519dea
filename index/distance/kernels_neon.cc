// The loop is written over the operations, so they come first.
// clang-format off
#include "index/distance/ops_neon.h"
#include "index/distance/kernel_rows.h"
// clang-format on

namespace hmann {

KernelTable NeonKernels() { return kTable; }

}  // namespace hmann
