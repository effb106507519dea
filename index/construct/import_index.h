#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/job.h"
#include "index/construct/import_graph.h"
#include "index/construct/make_bottom.h"
#include "index/construct/stages.h"
#include "index/construct/vectors.h"
#include "index/format/reader.h"

namespace hmann {

/// L0 and the vectors of a finished index, in the order of its ids.
struct ImportedIndex {
  ImportedGraph graph;
  StoredVectors rows;
};

/// Errors: DATA_LOSS naming node and link for lists that break their rules,
/// RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<ImportedIndex> ImportIndex(const IndexFile& file, const Kernels& kernels,
                                          const Job& job);

/// The same with links in files of a work folder, copies known, and rows() as row_of; the
/// index, which must outlive it, is where vectors are.
absl::StatusOr<Bottom> ImportStreamedIndex(const IndexFile& file, const Kernels& kernels,
                                           Stages stages);

/// Row of each id: its label, or the id itself where labels are the user's own. Errors:
/// DATA_LOSS for labels that are no permutation.
absl::StatusOr<std::vector<std::uint32_t>> RowsOfIds(const IndexFile& file);
/// By id; empty where labels are row numbers.
std::vector<std::uint64_t> UserLabelsOf(const IndexFile& file);

}  // namespace hmann
