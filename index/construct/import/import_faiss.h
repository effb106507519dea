#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "index/construct/import/import_graph.h"

namespace hmann {

/// Imports level 0 of an IndexHNSWFlat that Faiss's write_index wrote (1.7.3, "IHNf" over
/// flat storage). Vector i must be row i of `base`: equal in value, or under cosine the
/// row divided by its norm, within 1e-5 per component. The metric in the file must be
/// `metric`. For cosine it may be inner product or L2, which rank unit vectors alike.
///
/// Errors: as open(2); INVALID_ARGUMENT for a foreign file, or one of other vectors,
/// count, dimension or metric; DATA_LOSS for a truncated or corrupt one. Each names file,
/// offset, expected, found.
absl::StatusOr<ImportedGraph> ImportFaiss(const std::string& path, const VectorFile& base,
                                          Metric metric);

/// Returns what the file's headers say, without reading any node. Errors: those of
/// ImportFaiss.
absl::StatusOr<GraphParameters> ReadFaissParameters(const std::string& path, const VectorFile& base,
                                                    Metric metric);

}  // namespace hmann
