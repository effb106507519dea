#include "index/construct/graph/degree.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "index/base/prefetch.h"

namespace hmann {

std::vector<std::uint32_t> ComputeDegrees(const InsertionGraph& graph, ThreadPool& pool) {
  const NodeId n = graph.nodes(0);
  std::vector<std::uint32_t> degrees(n);
  pool.ParallelFor(n, 4096, [&](std::size_t begin, std::size_t end, int) {
    std::vector<NodeId> own_list, next_list, other_list;
    for (auto v = static_cast<NodeId>(begin); v < end; ++v) {
      // The neighbors' lists are scattered: prefetch the next node's while this node's
      // are read.
      if (v + 1 < n) {
        for (const NodeId link : graph.List(v + 1, next_list)) graph.PrefetchList(link);
      }
      const std::span<const NodeId> own = graph.List(v, own_list);
      std::atomic_ref(degrees[v])
          .fetch_add(static_cast<std::uint32_t>(own.size()), std::memory_order_relaxed);
      for (const NodeId link : own) {
        const std::span<const NodeId> theirs = graph.List(link, other_list);
        if (std::find(theirs.begin(), theirs.end(), v) == theirs.end())
          std::atomic_ref(degrees[link]).fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
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
