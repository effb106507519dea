#include "index/codes/choose.h"

namespace hmann {
namespace {

struct Level {
  std::string_view name;
  const CodeKernels* (*kernels)();
};
constexpr Level kLevels[] = {
#if defined(__x86_64__)
    {"avx512", Avx512CodeKernels},
    {"avx2", Avx2CodeKernels},
#elif defined(__aarch64__)
    {"neon", NeonCodeKernels},
#endif
    {"scalar", ScalarCodeKernels},
};

}  // namespace

const CodeKernels* FindCodeKernels(std::string_view simd) {
  for (const Level& level : kLevels) {
    if (level.name == simd) return level.kernels();
  }
  return nullptr;
}

}  // namespace hmann
