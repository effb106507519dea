#include "eval/adapters/latency.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "index/base/check.h"

namespace hmann {

LatencyUs SummariseLatency(std::vector<float> seconds) {
  HMANN_CHECK(!seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  const auto n = static_cast<double>(seconds.size());
  const auto at = [&](double share) { return 1e6 * seconds[static_cast<std::size_t>(std::max(1.0, std::ceil(share * n))) - 1]; };
  return {1e6 * std::accumulate(seconds.begin(), seconds.end(), 0.0) / n, at(0.50), at(0.99)};
}

}  // namespace hmann
