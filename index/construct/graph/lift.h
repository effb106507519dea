#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/base/task_context.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/graph/vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// Inner product is no metric: what is near a row says nothing about what is near its
/// neighbors. Links chosen by it lead nowhere. On 200,000 vectors of spread norms,
/// 226,058 nodes had to be relinked to be reachable, and recall 0.90 took 7,640
/// distances.
///
/// So f32 and f16 rows are linked in one more dimension. The extra component of a row is
/// the root of the difference between the largest square norm and its own. Then all rows
/// have one norm. A query's extra component is 0, so the row at the smallest L2 distance
/// has the largest inner product (Bachrach et al., RecSys 2014). Searches of the index do
/// without the component. Integer types have no room for it.
absl::StatusOr<Kernels> LiftedKernels(const Kernels& inner_product);

/// Writes the extra component of each of n rows, whose stride has room for it.
void LiftRows(const Kernels& inner_product, std::size_t n, const TaskContext& job,
              StoredVectors& rows);

/// Returns whether a build of lifted rows should promote nodes by norm instead of by
/// degree in L0. Answers by inner product are mostly rows of a large norm, unless norms
/// are alike. `ranked`: nodes by degree, of which the first n1 would be promoted. The
/// test uses some rows as queries and looks for their answers in a sample of the rows.
/// Norm wins if its promoted nodes hold at least a tenth more of the answers.
/// Deterministic. `rows`: by node, lifted. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<bool> NormTellsMore(const Kernels& inner_product, const NodeVectors& rows,
                                   const std::vector<NodeId>& ranked, NodeId n1,
                                   const TaskContext& job);

/// Sorts the nodes by norm, the largest first. Equal ones keep their order.
void RankByNorm(const Kernels& inner_product, const NodeVectors& rows, std::vector<NodeId>& ranked);

}  // namespace hmann
