#include "index/distance/ops_avx512.h"

#include "index/distance/kernel_loop.h"

namespace hmann {

KernelTable Avx512Kernels() { return kTable; }

}  // namespace hmann
