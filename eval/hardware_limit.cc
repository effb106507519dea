#include "eval/hardware_limit.h"

#include <algorithm>

namespace hmann {

std::optional<double> MemoryLimitQps(const std::vector<LoadsInFlight>& memory,
                                     const std::optional<double>& lines) {
  if (!lines || *lines <= 0 || memory.empty()) return std::nullopt;
  double ns = memory[0].ns_per_line.median;
  for (const LoadsInFlight& at : memory) ns = std::min(ns, at.ns_per_line.median);
  return 1e9 / (*lines * ns);
}

DriveAt AtDepth(std::span<const DepthFigures> depths, double depth) {
  const auto of = [](const DepthFigures& at) { return DriveAt{at.latency.mean, at.iops}; };
  const auto above = std::find_if(depths.begin(), depths.end(),
                                  [&](const DepthFigures& at) { return at.depth >= depth; });
  if (above == depths.begin()) return of(*above);
  if (above == depths.end()) return of(depths.back());
  const auto below = above - 1;
  const double share = (depth - below->depth) / (above->depth - below->depth);
  const DriveAt low = of(*below), high = of(*above);
  return {low.read_us + share * (high.read_us - low.read_us),
          low.reads_per_s + share * (high.reads_per_s - low.reads_per_s)};
}

std::optional<double> DriveLimitQps(std::span<const DepthFigures> depths, double reads,
                                    double rounds, int queries_in_flight) {
  if (depths.empty() || !(reads > 0)) return std::nullopt;
  const double width = rounds > 0 ? std::max(1.0, reads / rounds) : reads;
  const DriveAt drive = AtDepth(depths, width * queries_in_flight);
  const double by_waiting = queries_in_flight * 1e6 / (std::max(rounds, 1.0) * drive.read_us);
  return std::min(by_waiting, drive.reads_per_s / reads);
}

}  // namespace hmann
