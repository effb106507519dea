#include "index/construct/graph/degree.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "index/base/prefetch.h"

namespace hmann {

namespace {

constexpr std::size_t kNodesPerStep = 4096;

void Increase(std::uint32_t& degree, std::size_t by) {
  std::atomic_ref(degree).fetch_add(static_cast<std::uint32_t>(by), std::memory_order_relaxed);
}
bool IsAmong(std::span<const NodeId> list, NodeId node) {
  return std::find(list.begin(), list.end(), node) != list.end();
}

/// Counts the links of all nodes to nodes [first, last) that are not mutual, for these.
void CountLinksTo(const InsertionGraph& graph, NodeId first, NodeId last, ThreadPool& pool,
                  std::vector<std::uint32_t>& degrees) {
  const std::size_t most = graph.max_degree(0);
  std::vector<NodeId> copies(std::size_t{last - first} * most, kNoNode);
  pool.ParallelFor(last - first, kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    std::vector<NodeId> scratch;
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const NodeId> list = graph.List(first + static_cast<NodeId>(i), scratch);
      std::copy(list.begin(), list.end(), copies.data() + i * most);
    }
  });
  pool.ParallelFor(graph.nodes(0), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    std::vector<NodeId> scratch;
    for (auto v = static_cast<NodeId>(begin); v < end; ++v) {
      for (const NodeId link : graph.List(v, scratch)) {
        if (link < first || link >= last) continue;
        if (!IsAmong({copies.data() + (link - first) * most, most}, v)) Increase(degrees[link], 1);
      }
    }
  });
}

}  // namespace

std::vector<std::uint32_t> ComputeDegrees(const InsertionGraph& graph, ThreadPool& pool,
                                          std::uint64_t room) {
  const NodeId n = graph.nodes(0);
  std::vector<std::uint32_t> degrees(n);
  const std::uint64_t fit = room / (graph.max_degree(0) * sizeof(NodeId));
  const bool in_parts = fit < n;
  pool.ParallelFor(n, kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    std::vector<NodeId> own_list, next_list, other_list;
    for (auto v = static_cast<NodeId>(begin); v < end; ++v) {
      // Prefetch the next node's lists while this node's are read.
      if (!in_parts && v + 1 < n) {
        for (const NodeId link : graph.List(v + 1, next_list)) graph.PrefetchList(link);
      }
      const std::span<const NodeId> own = graph.List(v, own_list);
      Increase(degrees[v], own.size());
      for (std::size_t i = 0; !in_parts && i < own.size(); ++i)
        if (!IsAmong(graph.List(own[i], other_list), v)) Increase(degrees[own[i]], 1);
    }
  });
  const auto size = static_cast<NodeId>(std::max<std::uint64_t>(fit, kNodesPerStep));
  for (NodeId first = 0; in_parts && first < n; first += std::min(size, n - first))
    CountLinksTo(graph, first, first + std::min(size, n - first), pool, degrees);
  return degrees;
}

std::vector<NodeId> RankNodes(const std::vector<std::uint32_t>& degrees,
                              const std::vector<std::uint32_t>& row_of) {
  std::vector<NodeId> ranked(row_of.size());
  std::iota(ranked.begin(), ranked.end(), 0u);
  SortByRow(ranked, row_of);
  if (ranked.empty()) return ranked;
  // A counting sort keeps the rows' order among equal degrees.
  std::vector<std::size_t> place(std::size_t{*std::max_element(degrees.begin(), degrees.end())} +
                                 2);
  for (const std::uint32_t degree : degrees) ++place[place.size() - 1 - degree];
  std::partial_sum(place.begin(), place.end(), place.begin());
  std::vector<NodeId> by_degree(ranked.size());
  for (const NodeId node : ranked) by_degree[place[place.size() - 2 - degrees[node]]++] = node;
  return by_degree;
}

void SortByRow(std::span<NodeId> nodes, const std::vector<std::uint32_t>& row_of) {
  std::vector<NodeId> at_row(row_of.size(), kNoNode);
  for (const NodeId node : nodes) at_row[row_of[node]] = node;
  auto next = nodes.begin();
  for (const NodeId node : at_row) {
    if (node != kNoNode) *next++ = node;
  }
}

}  // namespace hmann
