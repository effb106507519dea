#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "index/construct/import/import_graph.h"

namespace hmann {

/// Imports level 0 of an index that hnswlib's saveIndex wrote (0.6.2, x86-64). Its labels
/// must be the rows of `base`, and its vectors must be theirs. They may be floats (equal
/// in value for u8 and i8 bases), or bytes for a u8 base under L2 (L2SpaceI). Under
/// cosine they are base rows divided by their norm, as hnswlib's users store them, within
/// 1e-5 per component. The file does not record the distance that built it, so the caller
/// vouches for l2 or ip.
///
/// Errors: as open(2); INVALID_ARGUMENT for a foreign file, or one of other vectors,
/// count, dimension or with deleted elements; DATA_LOSS for a truncated or corrupt one.
/// Each names file, offset, expected, found.
absl::StatusOr<ImportedGraph> ImportHnswlib(const std::string& path, const VectorFile& base,
                                            Metric metric);

/// Returns what the file's header says and reads nothing else. Errors: those of
/// ImportHnswlib.
absl::StatusOr<GraphParameters> ReadHnswlibParameters(const std::string& path,
                                                      const VectorFile& base, Metric metric);

}  // namespace hmann
