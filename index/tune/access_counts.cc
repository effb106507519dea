#include <algorithm>
#include <cmath>

#include "index/tune/placement_choices.h"

namespace hmann {
namespace {

// Of the prototype on 1M vectors, 10 % promoted, recall 0.95, by bits; 0: the pool. Rounds of the pool: 16 records each.
constexpr double kPromote = 0.1, kNodes = 1e6;
constexpr AccessCounts kGated[] = {{1095, 0, 619, 67}, {1026, 921, 71, 11}, {889, 665, 49, 7.9}, {880, 650, 48, 7.5}, {872, 635, 47, 7.1}};
// With the nearest 128 cells, one hub each, reads 16 at a time: the disk's walk. 2 bits measured; 4 from the prototype, in proportion.
constexpr AccessCounts kCells[] = {
    {1095, 0, 619, 67}, {2036, 3778, 31, 3.5}, {2036, 3778, 21.6, 2.4}, {2000, 3200, 16, 2}, {1969, 2757, 12.3, 1.6}};
constexpr double kSecondHubReads = 0.9;
/// Codes inside the record: a little more is read than with hubs.
constexpr double kEdgeReads = 1.04;

/// 619 reads became 535 from 10 % to 16 % promoted.
constexpr double kPromoteExponent = -0.31;

}  // namespace

AccessCounts DefaultCounts(bool block_tier, std::uint64_t n, const PlanStructure& structure) {
  const bool edge = structure.bits > 0 && structure.codes == CodePlace::kEdge;
  AccessCounts counts = (block_tier && !edge ? kCells : kGated)[structure.bits];
  const double share = static_cast<double>(structure.n1) / static_cast<double>(n);
  const double growth = std::log(static_cast<double>(n) + 1) / std::log(kNodes);
  double reads = std::pow(share / kPromote, kPromoteExponent) * growth;
  if (block_tier && structure.bits > 0 && structure.assign == 2) reads *= kSecondHubReads;
  if (edge) reads *= kEdgeReads;
  const auto cap = static_cast<double>(n);
  counts.slow_reads = std::min(counts.slow_reads * reads, cap);
  counts.rounds = std::min(counts.rounds * reads, counts.slow_reads);
  counts.distances_fast *= std::log(static_cast<double>(structure.n1) + 2) / std::log(kPromote * kNodes);
  counts.distances_fast = std::min(counts.distances_fast, static_cast<double>(structure.n1));
  counts.sketches = std::min(counts.sketches * growth, cap);
  return counts;
}

double CacheCurve::Hits(double cached, double promote) const {
  if (cached <= promote) return promote > 0 ? promoted * cached / promote : 0;
  const double share = std::min(1.0, (cached - promote) / (1 - promote));
  std::pair<double, double> below = {0, 0};
  for (const auto& above : others) {
    if (share <= above.first) {
      const double part = (share - below.first) / (above.first - below.first);
      return promoted + (1 - promoted) * (below.second + part * (above.second - below.second));
    }
    below = above;
  }
  return 1;
}

DeviceProfile DefaultProfile() {
  DeviceProfile profile;
  profile.machine.cpu_model = "none: figures of the design's sources";
  const auto figure = [](double value) { return Figure{value, 0}; };
  MemoryProfile dram{"dram", {{"2MiB", figure(90)}}, {}, figure(10)};
  for (const auto& [loads, ns] : {std::pair{1u, 90.0}, {2u, 46.0}, {4u, 24.0}, {8u, 13.0}, {12u, 10.0}, {32u, 9.0}}) {
    dram.in_flight.push_back({loads, figure(ns)});
  }
  profile.memory = {dram};
  BlockProfile disk{"nvme", "", 0, {}};
  // 41 us alone; 60 and 74 thousand reads a second at depth 8 and 32.
  for (const auto& [depth, us] : {std::pair{1u, 41.0}, {8u, 133.0}, {32u, 432.0}}) {
    disk.depths.push_back({depth, figure(us), figure(depth * 1e6 / us)});
  }
  profile.blocks = {disk};
  profile.distances = {{DType::kU8, 128, figure(6)}, {DType::kI8, 128, figure(6)}, {DType::kF32, 96, figure(9)}};
  for (std::uint32_t bits = 1; bits <= 4; ++bits)
    profile.sketches.push_back({128, bits, figure(5 + bits), figure(8 + 2 * bits), figure(900)});
  profile.thread_wake_us = figure(30);
  return profile;
}

}  // namespace hmann
