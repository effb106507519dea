// The loop is written over the operations, so they come first.
// clang-format off
#include "index/distance/ops_scalar.h"
#include "index/distance/kernel_rows.h"
// clang-format on

namespace hmann {

KernelTable ScalarKernels() { return kTable; }

}  // namespace hmann
