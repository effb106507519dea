#pragma once

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/nearest_lists.h"
#include "index/construct/partition.h"
#include "index/construct/vectors.h"

namespace hmann {

/// Compares the members of each leaf of a partition all with all. `vectors`: by node.
/// Errors: CANCELLED.
absl::Status JoinLeaves(Partition partition, const StoredVectors& vectors, const Kernels& kernels,
                        NearestLists& nearest, const Job& job);

}  // namespace hmann
