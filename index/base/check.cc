#include "index/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace hmann::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "hmann: internal error: %s does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace hmann::internal
