#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/partition.h"
#include "index/construct/phases.h"
#include "index/construct/vectors.h"

namespace hmann {

/// What the lowest layer of a graph, L0 or L1, is made of. Referenced as long as the graph lives.
struct BottomSource {
  const StoredVectors& rows;  ///< by node
  const Kernels& kernels;
  NodeId n;     ///< nodes
  NodeId made;  ///< that are linked here: the first; the others, copies of these, are not yet
  std::uint32_t m, ef_construction;
  float alpha;
  std::uint64_t seed;
};

/// Algorithm 1's first phase, and the refinement where alpha is above 1; nodes are in
/// random order. Its upper layers can be dropped. Errors: RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<InsertionGraph> InsertBottom(const BottomSource& source, Phases& phases,
                                            const Job& job);

/// The options of the partition of a build.
inline PartitionOptions PartitionFor(std::uint64_t seed) { return {.seed = seed}; }

/// All members of each leaf with each other, then the links of the nearest. Nodes are in
/// the order of `partition`, made with PartitionFor. `layer`: before the names of the
/// phases, as "L1 ". Errors: RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<InsertionGraph> JoinBottom(const BottomSource& source, Partition partition,
                                          const std::string& layer, Phases& phases, const Job& job);

}  // namespace hmann
