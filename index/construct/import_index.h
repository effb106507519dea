#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/import_graph.h"
#include "index/construct/vectors.h"
#include "index/format/reader.h"

namespace hmann {

/// L0 and the vectors of a finished index, in the order of rows (of ids, where the labels
/// are the user's own).
struct ImportedIndex {
  ImportedGraph graph;
  StoredVectors rows;
  std::vector<std::uint64_t> user_labels;  ///< by row; empty where labels are row numbers
};

/// Errors: DATA_LOSS naming node and link for lists that break their rules or labels that
/// are no permutation, RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<ImportedIndex> ImportIndex(const IndexFile& file, const Kernels& kernels,
                                          const Job& job);

}  // namespace hmann
