#include "index/distance/simd_level.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>

namespace hmann {
namespace {

bool Always() { return true; }

#if defined(__x86_64__)
struct X86 {
  bool avx2 = false;
  bool avx512 = false;
};

X86 AskCpu() {
  X86 x86;
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return x86;
  const bool floats = (c & bit_FMA) && (c & bit_F16C);
  if (!(c & bit_OSXSAVE)) return x86;
  std::uint32_t xcr0, xcr0_high;
  __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
  constexpr std::uint32_t kYmm = 0x06,
                          kZmm = 0xe6;  // xmm, ymm; also opmask, zmm0-15 high, zmm16-31
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return x86;
  x86.avx2 = (xcr0 & kYmm) == kYmm && floats && (b & bit_AVX2);
  constexpr std::uint32_t kNeeded = bit_AVX512F | bit_AVX512BW | bit_AVX512VL;
  x86.avx512 =
      x86.avx2 && (xcr0 & kZmm) == kZmm && (b & kNeeded) == kNeeded && (c & bit_AVX512VNNI);
  return x86;
}

const X86& Cpu() {
  static const X86 cpu = AskCpu();
  return cpu;
}
bool HasAvx2() { return Cpu().avx2; }
bool HasAvx512() { return Cpu().avx512; }
#endif

constexpr SimdLevel kLevels[] = {
#if defined(__x86_64__)
    {"avx512", Avx512Kernels, HasAvx512},
    {"avx2", Avx2Kernels, HasAvx2},
#elif defined(__aarch64__)
    {"neon", NeonKernels,
     Always},  // part of every ARMv8-A with floating point, which Debian's arm64 requires
#endif
    {"scalar", ScalarKernels, Always},
};

}  // namespace

SimdLevels BuiltSimdLevels() { return {kLevels, sizeof(kLevels) / sizeof(kLevels[0])}; }

const KernelRow* FindKernel(const KernelTable& table, DType dtype, Metric metric, std::size_t dim) {
  const KernelRow* row = table.rows;
  while (row->dtype != dtype || row->metric != metric || (row->dim != 0 && row->dim != dim)) ++row;
  return row;
}

}  // namespace hmann
