#include "index/sketch/choose.h"

namespace hmann {
namespace {

struct Level {
  std::string_view name;
  const SketchKernels* (*kernels)();
};
constexpr Level kLevels[] = {
#if defined(__x86_64__)
    {"avx512", Avx512SketchKernels},
    {"avx2", Avx2SketchKernels},
#elif defined(__aarch64__)
    {"neon", NeonSketchKernels},
#endif
    {"scalar", ScalarSketchKernels},
};

}  // namespace

const SketchKernels* FindSketchKernels(std::string_view simd) {
  for (const Level& level : kLevels) {
    if (level.name == simd) return level.kernels();
  }
  return nullptr;
}

}  // namespace hmann
