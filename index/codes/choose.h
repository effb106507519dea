#pragma once

#include <string_view>

#include "index/codes/kernel_table.h"

namespace hmann {

/// The kernels of the SIMD level with this name (Kernels::simd); nullptr when this build
/// does not have them.
const CodeKernels* FindCodeKernels(std::string_view simd);

}  // namespace hmann
