#include "index/construct/graph/degree.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "index/base/prefetch.h"

namespace hmann {

std::vector<std::uint32_t> ComputeDegrees(const NodeId* links, NodeId n, std::uint32_t max_degree,
                                          ThreadPool& pool) {
  std::vector<std::uint32_t> degrees(n);
  const auto list = [&](NodeId node) {
    return links + static_cast<std::size_t>(node) * max_degree;
  };
  pool.ParallelFor(n, 4096, [&](std::size_t begin, std::size_t end, int) {
    for (std::size_t v = begin; v < end; ++v) {
      const NodeId* const own = list(static_cast<NodeId>(v));
      // The neighbors' lists are scattered: prefetch the next node's while this node's
      // are read.
      if (v + 1 < n) {
        const NodeId* const next = list(static_cast<NodeId>(v + 1));
        for (std::uint32_t i = 0; i < max_degree && next[i] != kNoNode; ++i)
          PrefetchLines(list(next[i]), max_degree * sizeof(NodeId));
      }
      const std::uint32_t count = CountLinks(own, max_degree);
      std::atomic_ref(degrees[v]).fetch_add(count, std::memory_order_relaxed);
      for (std::uint32_t i = 0; i < count; ++i) {
        const NodeId* const theirs = list(own[i]);
        if (std::find(theirs, theirs + max_degree, static_cast<NodeId>(v)) == theirs + max_degree) {
          std::atomic_ref(degrees[own[i]]).fetch_add(1, std::memory_order_relaxed);
        }
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
