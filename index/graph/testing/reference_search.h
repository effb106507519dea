/// For tests: the search of the whole index, slow and obvious. What index/search does
/// must be this, answers and counters.
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

/// Dials as a user gives them, without defaults; widths are raised to hold k as section
/// 11.f of doc/paper.md says.
struct ReferenceDials {
  std::uint32_t k = 10;
  std::uint32_t ef_l1 = 16;
  std::uint32_t ef_l0 = 64;
  bool pool = true;         ///< else beams
  std::uint32_t width = 1;  ///< of the pool: candidates that are expanded together
  float epsilon = -1;  ///< of best-first: it ends at a candidate farther than (1 + epsilon) x the
                       ///< kth best; -1: it does not
};

/// Names as in the JSON of `hmann search`.
struct ReferenceCounters {
  std::uint64_t distances_fast = 0, distances_slow = 0;
  std::uint64_t slow_reads = 0, slow_touches = 0, slow_bytes = 0, rounds = 0;
  std::uint64_t expanded_l1 = 0, expanded_l0 = 0;
};

struct ReferenceAnswer {
  std::vector<Candidate> nearest;  ///< at most k, nearest first, ties by id
  ReferenceCounters counters;
};

/// Algorithms 2 and 3 as section 11 of doc/paper.md reads them. `query`: a stored row.
/// Requires 0 < k <= n.
///
/// What the counters count: every distance, by where the vector lies (the entry point of
/// a layer is measured in each layer); every node whose links are read, in L1 and in L0;
/// as slow records, the record of every node expanded in L0 and of every unpromoted node
/// measured: `slow_touches` each time, `slow_reads` and `slow_bytes` once a query. A
/// round is a step that waits: for the links of a promoted node (an unpromoted one's came
/// with its vector), or for the vectors of one or more unpromoted neighbours.
ReferenceAnswer ReferenceSearch(const ReferenceIndex& index, const std::byte* query,
                                ReferenceDials dials);

}  // namespace hmann
