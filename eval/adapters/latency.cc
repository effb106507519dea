#include "eval/adapters/latency.h"

#include <algorithm>
#include <numeric>

#include "index/base/check.h"
#include "index/base/statistics.h"

namespace hmann::eval {

LatencyUs SummarizeLatency(std::vector<float> seconds) {
  HMANN_CHECK(!seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {1e6 * sum / static_cast<double>(seconds.size()), 1e6 * Percentile(seconds, 0.50),
          1e6 * Percentile(seconds, 0.99)};
}

}  // namespace hmann::eval
