#pragma once

#include <string_view>

#include "index/codes/kernel_table.h"

namespace hmann {

/// The kernels of the level of this name (Kernels::simd); null when this build has none
/// of it.
const CodeKernels* FindCodeKernels(std::string_view simd);

}  // namespace hmann
