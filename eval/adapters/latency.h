#pragma once

#include <vector>

namespace hmann::eval {

/// Latency of single queries (or reads), in microseconds.
struct LatencyUs {
  /// Percentiles: the sorted value that 50 % (99 %) of the values do not exceed.
  double mean = 0, p50 = 0, p99 = 0;
};

/// Requires at least one value.
LatencyUs SummarizeLatency(std::vector<float> seconds);

}  // namespace hmann::eval
