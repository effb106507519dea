#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/import_graph.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/node_vectors.h"
#include "index/construct/options.h"
#include "index/construct/phases.h"
#include "index/construct/stages.h"
#include "index/construct/vectors.h"
#include "index/distance/distance.h"

namespace hmann {

/// L0 as it comes out of Algorithm 1's first phase.
struct Bottom {
  StoredVectors rows;                      ///< by node, where they are in memory;
  NodeVectors vectors;                     ///< wherever they are
  std::vector<std::uint32_t> row_of;       ///< [node]
  std::vector<std::vector<NodeId>> equal;  ///< nodes with equal vectors, first the linked one
  std::uint64_t copies = 0;                ///< vectors equal to an earlier one
  std::unique_ptr<InsertionGraph> graph;   ///< over `rows`; one layer
};

/// How L0 is made. `kernels` must outlive what is made.
struct BottomOptions {
  const Kernels& kernels;   ///< that links are made with
  std::uint32_t row_bytes;  ///< by which vectors are compared for equality
  BuildMethod method;
  std::uint32_t m, ef_construction;
  float alpha;
  std::uint64_t seed;
};

/// L0 of n vectors, by row, in memory; of `imported` links, if there are any, which it
/// takes over. Errors: RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<Bottom> MakeBottom(const BottomOptions& options, StoredVectors rows, NodeId n,
                                  std::unique_ptr<ImportedGraph> imported, Phases& phases,
                                  const Job& job);

}  // namespace hmann
