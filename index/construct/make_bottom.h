#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/build_options.h"
#include "hmann/distance.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/graph/vectors.h"
#include "index/construct/import/import_graph.h"
#include "index/construct/jobs/stages.h"
#include "index/format/reader.h"

namespace hmann {

/// L0 as it comes out of Algorithm 1's first phase.
struct Bottom {
  StoredVectors rows;                      ///< by node, where they were inserted
  NodeVectors vectors;                     ///< by node
  std::vector<std::uint32_t> row_of;       ///< [node]
  std::vector<std::vector<NodeId>> equal;  ///< nodes with equal vectors, first the linked one
  std::uint64_t copies = 0;                ///< vectors equal to an earlier one
  std::unique_ptr<InsertionGraph> graph;   ///< one layer
};

/// What L0 is made of, and how. What it refers to must outlive what is made.
struct BottomSource {
  NodeVectors rows;                  ///< by row; of a finished index by id
  const VectorFile* file = nullptr;  ///< that they are encoded from, which is checked on the
                                     ///< way; none: they are known to be good
  const Kernels& kernels;            ///< that links are made with
  std::uint32_t row_bytes = 0;       ///< by which vectors are compared for equality
  BuildMethod method = BuildMethod::kPartition;
  std::uint32_t m = 0, ef_construction = 0;
  float alpha = 1;
  std::uint64_t seed = 0;
  std::uint64_t room = 0;  ///< bytes that a job may take for what it loads
  /// Where L0 is finished: an index, or links, which are taken over.
  const IndexFile* index = nullptr;
  std::unique_ptr<ImportedGraph> imported = nullptr;
};

/// L0: finished, inserted or joined by leaves, with its copies. Links that are not
/// inserted lie where the stages leave their artefacts, and what is written to them stays
/// in memory. Errors: those of LoadVectors, of JoinedLayer and of ImportLinks.
absl::StatusOr<Bottom> MakeBottom(BottomSource source, Stages stages);

/// Memory that it takes where L0 is joined, besides what a job loads: numbers of n rows.
std::uint64_t FixedBottomBytes(std::uint64_t n);

}  // namespace hmann
