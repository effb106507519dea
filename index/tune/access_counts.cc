#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "index/tune/placement_choices.h"

namespace hmann {
namespace {

// Of 1M SIFT vectors, 10 % promoted, recall 0.95, by bits (3 between its neighbours); 0: the pool.
constexpr double kPromote = 0.1, kNodes = 1e6;
constexpr AccessCounts kGated[] = {{323, 0, 694, 60}, {1026, 921, 71, 11}, {889, 665, 49, 7.9}, {880, 650, 48, 7.5}, {872, 635, 47, 7.1}};
// With the nearest 128 cells, one hub each, reads 16 at a time: the disk's walk. 2 bits measured; 4 from the prototype, in proportion.
constexpr AccessCounts kCells[] = {
    {323, 0, 694, 60}, {2036, 3778, 31, 3.5}, {2036, 3778, 21.6, 2.4}, {2000, 3200, 16, 2}, {1969, 2757, 12.3, 1.6}};
constexpr double kSecondHubReads = 0.9;
/// Codes inside the record: a little more is read than with hubs.
constexpr double kEdgeReads = 1.04;

// How the counts go with the share that is promoted, as multiples of those at 10 %: 100 thousand SIFT vectors, 1,000 queries, pool and
// gated walk without cells, one hub each.
constexpr std::array<double, 7> kShares = {0.0015, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4};
using Multiples = std::array<double, kShares.size()>;
struct Trend {
  Multiples distances_fast, sketches, slow_reads, rounds;
};
constexpr Trend kPoolTrend = {
    {0.3, 0.48, 0.7, 0.86, 1, 1.23, 1.58}, {}, {1.32, 1.28, 1.19, 1.11, 1, 0.84, 0.58}, {0.98, 0.97, 0.96, 0.97, 1, 1.07, 1.19}};
constexpr Trend kTrends[] = {kPoolTrend,
                             {{0.2, 0.43, 0.75, 0.92, 1, 1.02, 0.95},
                              {2.92, 2.24, 1.64, 1.3, 1, 0.69, 0.36},
                              {2.66, 1.97, 1.43, 1.19, 1, 0.81, 0.61},
                              {2.56, 1.94, 1.42, 1.19, 1, 0.8, 0.61}},
                             {{0.25, 0.48, 0.77, 0.92, 1, 1.05, 1.03},
                              {2.09, 1.8, 1.48, 1.22, 1, 0.75, 0.44},
                              {1.63, 1.43, 1.24, 1.09, 1, 0.89, 0.77},
                              {1.57, 1.39, 1.2, 1.09, 1, 0.91, 0.78}},
                             {{0.25, 0.48, 0.77, 0.91, 1, 1.05, 1.05},
                              {1.95, 1.68, 1.42, 1.19, 1, 0.75, 0.46},
                              {1.44, 1.29, 1.17, 1.06, 1, 0.9, 0.8},
                              {1.37, 1.24, 1.14, 1.04, 1, 0.92, 0.82}}};

double At(const Multiples& multiples, double share) {
  if (share <= kShares.front()) return multiples.front();
  for (std::size_t i = 1; i < kShares.size(); ++i) {
    if (share > kShares[i]) continue;
    const double part = std::log(share / kShares[i - 1]) / std::log(kShares[i] / kShares[i - 1]);
    return multiples[i - 1] + part * (multiples[i] - multiples[i - 1]);
  }
  return multiples.back();
}

/// From 100 thousand to 1M vectors counts became 1.4 to 1.8 times what they were; beyond, nothing is measured.
double Growth(double n) { return n < kNodes ? std::pow(n / kNodes, 0.2) : std::log(n) / std::log(kNodes); }

}  // namespace

AccessCounts DefaultCounts(bool block_tier, std::uint64_t n, const PlanStructure& structure) {
  const bool edge = structure.bits > 0 && structure.codes == CodePlace::kEdge, cells = block_tier && structure.bits > 0 && !edge;
  AccessCounts counts = (cells ? kCells : kGated)[structure.bits];
  const double share = static_cast<double>(structure.n1) / static_cast<double>(n), growth = Growth(static_cast<double>(n));
  const Trend& trend = kTrends[std::min<std::size_t>(structure.bits, std::size(kTrends) - 1)];
  const auto cap = static_cast<double>(n);
  double reads = growth;
  if (cells && structure.assign == 2) reads *= kSecondHubReads;
  if (edge) reads *= kEdgeReads;
  counts.slow_reads = std::min(counts.slow_reads * reads * At(trend.slow_reads, share), cap);
  counts.rounds = std::min(counts.rounds * reads * At(trend.rounds, share), counts.slow_reads);
  counts.distances_fast = std::min(counts.distances_fast * growth * At(trend.distances_fast, share), static_cast<double>(structure.n1));
  // So many cells have the fewer members, the more hubs there are; a walk along links meets as many nodes as before.
  counts.sketches = std::min(counts.sketches * (cells ? kPromote / std::max(share, 1 / cap) : growth * At(trend.sketches, share)), cap);
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
