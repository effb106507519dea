#pragma once

#include <vector>

namespace hmann::eval {

/// What single queries (or reads) took, in microseconds.
struct LatencyUs {
  double mean = 0, p50 = 0,
         p99 = 0;  ///< of the values in order, the one that 50 % (99 %) do not exceed
};

/// Requires at least one value.
LatencyUs SummariseLatency(std::vector<float> seconds);

}  // namespace hmann::eval
