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

/// L0 after Algorithm 1's first phase.
struct Bottom {
  StoredVectors rows;                      ///< by node, if they were inserted
  NodeVectors vectors;                     ///< by node
  std::vector<std::uint32_t> row_of;       ///< [node]
  std::vector<std::vector<NodeId>> equal;  ///< nodes with equal vectors, first the linked one
  std::uint64_t copies = 0;                ///< vectors equal to an earlier one
  std::unique_ptr<InsertionGraph> graph;   ///< one layer
};

/// The inputs of L0 and the way to make it. Everything it refers to must outlive the
/// result.
struct BottomSource {
  NodeVectors rows;  ///< by row; for a finished index by id
  /// The file to encode and check `rows` from; nullptr: they are known to be good.
  const VectorFile* file = nullptr;
  const Kernels& kernels;  ///< for making links
  BuildMethod method = BuildMethod::kPartition;
  std::uint32_t m = 0, ef_construction = 0;
  float alpha = 1;
  std::uint64_t seed = 0;
  std::uint64_t room = 0;  ///< bytes that a job may take for what it loads
  /// Set if L0 is finished: an index, or links to take over.
  const IndexFile* index = nullptr;
  std::unique_ptr<ImportedGraph> imported = nullptr;
};

/// Makes L0 from a finished graph, by insertion or by joining leaves, with its copies.
/// Unless inserted, links lie where the stages leave their artifacts, and writes to them
/// stay in memory. Errors: those of LoadVectors, of JoinedLayer and of ImportLinks.
absl::StatusOr<Bottom> MakeBottom(BottomSource source, Stages stages);

/// Threads' scratch, buffers of files, the program, and the smallest part of a job.
/// `stride`: of a stored vector in bytes.
std::uint64_t BytesAround(std::uint64_t stride);

/// Memory that a joined L0 takes in addition to what a job loads: numbers of n rows.
std::uint64_t FixedBottomBytes(std::uint64_t n, std::uint64_t stride);

}  // namespace hmann
