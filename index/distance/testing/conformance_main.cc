#include <cstdio>
#include <cstring>

#include "index/distance/testing/conformance.h"

/// Usage: conformance <level>... Fails when a named level is not supported here, or when
/// any supported level is wrong.
int main(int argc, char** argv) {
  std::size_t mismatches = 0;
  for (int i = 1; i < argc; ++i) {
    bool found = false;
    for (const hmann::SimdLevel& level : hmann::BuiltSimdLevels())
      found |= std::strcmp(level.name, argv[i]) == 0 && level.supported();
    if (!found) std::fprintf(stderr, "level '%s' is not supported here\n", argv[i]);
    mismatches += !found;
  }
  for (const std::size_t dim : hmann::conformance::Dims()) {
    for (const hmann::SimdLevel& level : hmann::BuiltSimdLevels()) {
      if (level.supported()) mismatches += hmann::conformance::CountMismatches(level, dim);
    }
    mismatches += hmann::conformance::CountDisagreements(dim);
  }
  std::printf("%zu mismatches\n", mismatches);
  return mismatches == 0 ? 0 : 1;
}
