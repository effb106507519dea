#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "index/codes/choose.h"
#include "index/codes/testing/conformance.h"

/// Usage: conformance <level>... Fails when this build lacks a level, when one of them is
/// wrong, or when code bytes differ here.
int main(int argc, char** argv) {
  using namespace hmann;
  std::size_t mismatches = 0;
  for (int i = 1; i < argc; ++i) {
    const CodeKernels* kernels = FindCodeKernels(argv[i]);
    if (kernels == nullptr) std::fprintf(stderr, "level '%s' is not in this build\n", argv[i]);
    mismatches += kernels == nullptr;
    if (kernels == nullptr) continue;
    for (const std::size_t dim : code_conformance::Dims())
      mismatches += code_conformance::CountMismatches(*kernels, dim);
  }
  const std::uint64_t fingerprint = code_conformance::CodeFingerprint();
  if (fingerprint != code_conformance::kCodeFingerprint)
    std::fprintf(stderr, "fingerprint of codes: %#" PRIx64 "\n", fingerprint);
  mismatches += fingerprint != code_conformance::kCodeFingerprint;
  std::printf("%zu mismatches\n", mismatches);
  return mismatches == 0 ? 0 : 1;
}
