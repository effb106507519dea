#pragma once

#include <cstdint>
#include <vector>

#include "index/base/thread_pool.h"
#include "index/build/insertion_graph.h"
#include "index/format/info.h"
#include "index/graph/types.h"

namespace hmann {

/// In-degree and union degree of every node of a layer.
struct Degrees {
  std::vector<std::uint32_t> out, in;
  std::vector<std::uint32_t> either;  ///< D(v) = |out-links ∪ in-links|: nodes linked with v in either direction
};

/// links: n x max_degree, padded with kNoNode. O(n * max_degree^2 / threads); the counts do not depend on the threads.
Degrees ComputeDegrees(const NodeId* links, NodeId n, std::uint32_t max_degree, ThreadPool& pool);

/// The nodes in order of promotion: by the degree that `order` names, descending, ties by row ascending; kRandom is a seeded permutation of
/// the rows. `row_of[v]`: row of node v in the base file.
std::vector<NodeId> RankNodes(const Degrees& degrees, PromotionOrder order, const std::vector<std::uint32_t>& row_of, std::uint64_t seed);

}  // namespace hmann
