#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/base/job.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/graph/vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// Inner product is no metric: what is near to a row says nothing of what is near to its
/// neighbours, so that links chosen by it lead nowhere (200,000 vectors of spread norms:
/// 226,058 nodes had to be linked anew to be reachable, and recall 0.90 took 7,640
/// distances). So links of f32 and f16 rows are made in one dimension more: behind each
/// row stands the root of what its square norm lacks of the largest. Then all rows have
/// one norm, and the row at the smallest L2 distance from a query, whose last component
/// is 0, is that of the largest inner product (Bachrach et al., RecSys 2014). The index
/// is searched without it. Integers have no room for that component.
absl::StatusOr<Kernels> LiftedKernels(const Kernels& inner_product);

/// Writes the component behind each of n rows, whose stride has room for it.
void LiftRows(const Kernels& inner_product, std::size_t n, const Job& job, StoredVectors& rows);

/// Of a build of lifted rows: whether who is promoted should be told by the norm instead
/// of by the degree in L0. Answers by inner product are mostly rows of a large norm,
/// unless norms are alike. `ranked`: nodes by degree, of which the first n1 would be
/// promoted. Asked are the answers to some of the rows as queries among a sample of them:
/// the norm has to hold a tenth more of them. Deterministic.
/// `rows`: by node, lifted. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<bool> NormTellsMore(const Kernels& inner_product, const NodeVectors& rows,
                                   const std::vector<NodeId>& ranked, NodeId n1, const Job& job);

/// The nodes by norm, the largest first; of equal ones, as they stood.
void RankByNorm(const Kernels& inner_product, const NodeVectors& rows, std::vector<NodeId>& ranked);

}  // namespace hmann
