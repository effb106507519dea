/// For tests: a slow and simple search of the whole index. Answers and counters of
/// index/search must equal those of this search.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hmann/distance.h"
#include "index/graph/layers.h"
#include "index/graph/select.h"
#include "index/graph/types.h"

namespace hmann {

/// An index as the reference sees it.
struct ReferenceIndex {
  Kernels kernels;
  Layers layers;
  std::function<std::vector<NodeId>(std::uint32_t layer, NodeId id)> links;
  std::function<const std::byte*(NodeId id)> row;        ///< in stored form
  std::function<std::uint64_t(NodeId id)> record_bytes;  ///< of the node's record in L0
};

/// ResolvedParams as a user gives them, without defaults. Widths are raised to hold k, as
/// in section 11.f of doc/paper.md.
struct ReferenceParams {
  std::uint32_t k = 10;
  std::uint32_t ef_l1 = 16;
  std::uint32_t ef_l0 = 64;
  bool pool = true;         ///< otherwise Algorithm 3
  std::uint32_t thr = 1;    ///< of Algorithm 3
  std::uint32_t width = 1;  ///< of the pool: candidates that are expanded together
  float epsilon = -1;       ///< graph: ends at a candidate farther than (1 + epsilon) x
                            ///< the kth best; -1: no limit
};

/// Names as in the JSON of `hmann search`.
struct ReferenceCounters {
  std::uint64_t distances_fast = 0, distances_slow = 0;
  std::uint64_t node_reads = 0, node_accesses = 0, node_bytes = 0, hops = 0;
  std::uint64_t expanded_l1 = 0, expanded_l0 = 0;
};

struct ReferenceAnswer {
  std::vector<Candidate> nearest;  ///< at most k, nearest first, ties by id
  ReferenceCounters counters;
};

/// Algorithms 2 and 3 as section 11 of doc/paper.md reads them. `query`: a stored row.
/// Requires 0 < k <= n.
///
/// The counters count every distance, by where the vector lies (the entry point of a
/// layer is measured in each layer). They count every node whose links are read, in L1
/// and in L0. Slow records are the record of every node expanded in L0 and of every
/// unpromoted node measured. They count in `node_accesses` each time, and in `node_reads`
/// and `node_bytes` once a query. A hop is a step that waits: for the links of a promoted
/// node (an unpromoted node's arrived with its vector), or for the vectors of one or more
/// unpromoted neighbors.
ReferenceAnswer ReferenceSearch(const ReferenceIndex& index, const std::byte* query,
                                ReferenceParams params);

}  // namespace hmann
