#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "hmann/distance.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/graph/vectors.h"
#include "index/construct/jobs/leaders.h"
#include "index/graph/types.h"

namespace hmann {

/// Options for n vectors. A constant fan would lose neighbors as n grows. The numbers
/// come from 60,000 and a million vectors of two sets (doc/paper.md, 12.h); for other
/// data they are a guess.
PartitionOptions PartitionFor(std::uint64_t n, std::uint64_t seed);

/// Splits the members of a group, which are places in `vectors`, until every leaf fits,
/// and hands each to `leaf`. Members that no split separates (nearly all follow one
/// leader) are cut by place.
void ForEachLeaf(std::span<const NodeId> members, const StoredVectors& vectors,
                 const Kernels& kernels, const PartitionOptions& options,
                 const std::function<void(std::span<const NodeId>)>& leaf);
/// The same leaves of nodes whose vectors do not fit into memory: they are copied some at
/// a time, once for each split. Errors: RESOURCE_EXHAUSTED.
absl::Status ForEachLeaf(std::span<const NodeId> nodes, const NodeVectors& vectors,
                         const Kernels& kernels, const PartitionOptions& options, ThreadPool& pool,
                         const std::function<void(std::span<const NodeId>)>& leaf);

}  // namespace hmann
