#include "index/distance/ops_avx2.h"

#include "index/distance/kernel_loop.h"

namespace hmann {

KernelTable Avx2Kernels() { return kTable; }

}  // namespace hmann
