#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/base/thread_pool.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/graph/types.h"

namespace hmann {

/// D(v) = |out-links ∪ in-links| of every node of a layer: nodes linked with v in either
/// direction. O(n * max_degree^2 / threads); the counts do not depend on the threads.
///
/// Neighbors' lists are scattered. `room`: bytes for copies of them, where lists are
/// mapped and may exceed the memory. If it is too small for all, they are copied a part
/// at a time, and the graph is read from front to back for each. The default reads them
/// where they are.
std::vector<std::uint32_t> ComputeDegrees(const InsertionGraph& graph, ThreadPool& pool,
                                          std::uint64_t room = ~std::uint64_t{0});

/// The nodes in order of promotion: by degree, descending; ties by row, ascending.
/// `row_of[v]`: row of node v in the base file.
std::vector<NodeId> RankNodes(const std::vector<std::uint32_t>& degrees,
                              const std::vector<std::uint32_t>& row_of);

/// Sorts distinct nodes by their rows. Rows are numbers below row_of.size(). Linear in
/// that size, as RankNodes is.
void SortByRow(std::span<NodeId> nodes, const std::vector<std::uint32_t>& row_of);

}  // namespace hmann
