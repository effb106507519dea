#include "index/distance/ops_scalar.h"

#include "index/distance/kernel_loop.h"

namespace hmann {

KernelTable ScalarKernels() { return kTable; }

}  // namespace hmann
