#include "index/distance/ops_neon.h"

#include "index/distance/kernel_loop.h"

namespace hmann {

KernelTable NeonKernels() { return kTable; }

}  // namespace hmann
