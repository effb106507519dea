#include "eval/hardware_limit.h"

#include <algorithm>

namespace hmann {
namespace {

double Lines(std::uint32_t bytes) {
  const std::uint32_t lines = (bytes + 63) / 64;
  return lines;
}

}  // namespace

std::optional<double> LinesOfQuery(const Json& counters, const TouchedBytes& bytes) {
  double lines = 0;
  for (const auto& [counter, each] :
       {std::pair("distances", Lines(bytes.row)), std::pair("expanded_l1", Lines(bytes.links)),
        std::pair("expanded_l0", Lines(bytes.links)), std::pair("estimates", bytes.code / 64.0)}) {
    if (!counters.is_object() || !counters.contains(counter)) return std::nullopt;
    lines += counters[counter].get<double>() * each;
  }
  return lines;
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
