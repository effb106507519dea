#include <algorithm>
#include <array>
#include <cmath>

#include "index/codes/code_layout.h"
#include "index/tune/placement_choices.h"

namespace hmann {
namespace {

/// Of 0, 1, 2 and 4 bits.
std::size_t Column(std::uint32_t bits) { return bits == 4 ? 3 : bits; }

// Of 1M SIFT vectors (alpha 1.2), 10 % promoted, recall 0.95 by `epsilon`, by
// Column(bits); 0: the pool, two candidates at a time.
constexpr double kPromote = 0.1, kNodes = 1e6;
constexpr AccessCounts kQuantised[] = {
    {258, 0, 549, 19.9}, {1068, 962, 55.2, 7.9}, {817, 606, 33.2, 5.1}, {789, 566, 30.8, 4.7}};
// With the nearest 128 cells, one centroid each, reads 16 at a time: the disk's walk.
constexpr AccessCounts kCells[] = {
    {258, 0, 549, 19.9}, {1654, 3942, 49.6, 4.3}, {1364, 3493, 21, 2.3}, {1285, 3358, 12.5, 1.6}};
/// With a second centroid each, as multiples: less is read, and more is met in the cells.
constexpr double kReplicaReads = 0.92, kReplicaWork = 1.43;

// How the counts go with the share that is promoted, as multiples of those at 10 %: 100
// thousand SIFT vectors, 1,000 queries, pool and quantised walk without cells, one
// centroid each. Beyond 40 % from a run of its own, joined at 40 %.
constexpr std::array<double, 9> kShares = {0.0015, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8};
using Multiples = std::array<double, kShares.size()>;
struct Trend {
  Multiples distances_fast, estimates, slow_reads, rounds;
};
constexpr Trend kBestFirstTrend = {{0.31, 0.45, 0.64, 0.81, 1, 1.3, 1.75, 2.06, 2.33},
                                   {},
                                   {1.32, 1.27, 1.19, 1.11, 1, 0.83, 0.59, 0.38, 0.2},
                                   {0.98, 0.96, 0.95, 0.97, 1, 1.07, 1.22, 1.33, 1.36}};
constexpr Trend kTrends[] = {kBestFirstTrend,
                             {{0.18, 0.41, 0.72, 0.91, 1, 1.04, 0.96, 0.87, 0.83},
                              {2.6, 2.11, 1.67, 1.33, 1, 0.72, 0.39, 0.2, 0.08},
                              {2.42, 1.94, 1.53, 1.26, 1, 0.83, 0.63, 0.5, 0.43},
                              {2.24, 1.82, 1.46, 1.22, 1, 0.85, 0.68, 0.55, 0.48}},
                             {{0.21, 0.44, 0.73, 0.9, 1, 1.06, 1.03, 0.98, 0.95},
                              {2.09, 1.82, 1.48, 1.23, 1, 0.75, 0.44, 0.26, 0.11},
                              {1.71, 1.52, 1.29, 1.13, 1, 0.88, 0.73, 0.66, 0.6},
                              {1.57, 1.42, 1.23, 1.11, 1, 0.9, 0.77, 0.7, 0.64}},
                             {{0.22, 0.45, 0.73, 0.91, 1, 1.06, 1.04, 1, 0.98},
                              {2.02, 1.77, 1.47, 1.23, 1, 0.76, 0.45, 0.27, 0.11},
                              {1.62, 1.46, 1.26, 1.13, 1, 0.89, 0.75, 0.69, 0.63},
                              {1.51, 1.37, 1.21, 1.09, 1, 0.92, 0.79, 0.73, 0.67}}};

double At(const Multiples& multiples, double share) {
  if (share <= kShares.front()) return multiples.front();
  for (std::size_t i = 1; i < kShares.size(); ++i) {
    if (share > kShares[i]) continue;
    const double part = std::log(share / kShares[i - 1]) / std::log(kShares[i] / kShares[i - 1]);
    return multiples[i - 1] + part * (multiples[i] - multiples[i - 1]);
  }
  return multiples.back();
}

/// From 100 thousand to 1M vectors the pool read 1.7 times as much and the quantised walk
/// 1.3 times; beyond, nothing is measured.
double Growth(double n, bool quantised) {
  return n < kNodes ? std::pow(n / kNodes, quantised ? 0.12 : 0.22)
                    : std::log(n) / std::log(kNodes);
}

}  // namespace

AccessCounts DefaultCounts(bool block_tier, std::uint64_t n, const PlanStructure& structure) {
  const bool cells = block_tier && structure.bits > 0;
  AccessCounts counts = (cells ? kCells : kQuantised)[Column(structure.bits)];
  const double share = static_cast<double>(structure.n1) / static_cast<double>(n),
               growth = Growth(static_cast<double>(n), structure.bits > 0);
  const Trend& trend = kTrends[Column(structure.bits)];
  const auto cap = static_cast<double>(n);
  double reads = growth;
  if (cells && structure.replicas == 2) {
    reads *= kReplicaReads;
    counts.distances_fast *= kReplicaWork;
    counts.estimates *= kReplicaWork;
  }
  counts.slow_reads = std::min(counts.slow_reads * reads * At(trend.slow_reads, share), cap);
  counts.rounds = std::min(counts.rounds * reads * At(trend.rounds, share), counts.slow_reads);
  counts.distances_fast = std::min(counts.distances_fast * growth * At(trend.distances_fast, share),
                                   static_cast<double>(structure.n1));
  // So many cells have the fewer members, the more centroids there are; a walk along
  // links meets as many nodes as before.
  counts.estimates = std::min(counts.estimates * (cells ? kPromote / std::max(share, 1 / cap)
                                                        : growth * At(trend.estimates, share)),
                              cap);
  return counts;
}

CacheCurve DefaultCacheCurve(bool block_tier, const PlanStructure& structure) {
  // 1M SIFT vectors (`hmann search --cache static --json`): the pool with 16 % promoted,
  // records; gates with 10 %, records, and blocks with cells. A block holds the records
  // of a cell, wanted or not: of those of other nodes a cache answers hardly more than
  // its share.
  if (structure.bits == 0) return {0.03, {{0.05, 0.1}, {0.167, 0.29}, {0.405, 0.58}, {1, 1}}};
  if (block_tier) return {0.167, {{0.04, 0.05}, {0.122, 0.137}, {0.286, 0.31}, {1, 1}}};
  return {0.22, {{0.05, 0.1}, {0.15, 0.27}, {0.4, 0.61}, {1, 1}}};
}

double CacheCurve::Hits(double cached, double promoted_part) const {
  if (cached <= promoted_part) return promoted_part > 0 ? promoted * cached / promoted_part : 0;
  const double share = std::min(1.0, (cached - promoted_part) / (1 - promoted_part));
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
  for (const auto& [loads, ns] :
       {std::pair{1u, 90.0}, {2u, 46.0}, {4u, 24.0}, {8u, 13.0}, {12u, 10.0}, {32u, 9.0}}) {
    dram.in_flight.push_back({loads, figure(ns)});
  }
  profile.memory = {dram};
  BlockProfile disk{"nvme", "", 0, {}};
  // 41 us alone; 60 and 74 thousand reads a second at depth 8 and 32.
  for (const auto& [depth, us] : {std::pair{1u, 41.0}, {8u, 133.0}, {32u, 432.0}}) {
    disk.depths.push_back({depth, figure(us), figure(depth * 1e6 / us)});
  }
  profile.blocks = {disk};
  profile.distances = {{DType::kU8, 128, figure(6)},
                       {DType::kI8, 128, figure(6)},
                       {DType::kF32, 96, figure(9)},
                       {DType::kF16, 96, figure(12)}};
  for (const unsigned bits : kCodeBits)
    profile.codes.push_back({128, bits, figure(5 + bits), figure(8 + 2 * bits), figure(900)});
  profile.thread_wake_us = figure(30);
  return profile;
}

}  // namespace hmann
