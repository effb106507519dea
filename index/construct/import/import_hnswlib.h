#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "index/construct/import/import_graph.h"

namespace hmann {

/// Takes level 0 of an index that hnswlib's saveIndex wrote (0.6.2, x86-64). Its labels
/// must be the rows of `base`, its vectors theirs: as floats (for u8 and i8 bases equal
/// in value), or as bytes for a u8 base under L2 (L2SpaceI); under cosine, base rows
/// divided by their norm, as hnswlib's users store them, within 1e-5 a component. The
/// file does not record the distance that built it: l2 against ip is the caller's word.
///
/// Errors: as open(2); INVALID_ARGUMENT for a foreign file, or one of other vectors,
/// count, dimension or with deleted elements; DATA_LOSS for a truncated or corrupt one.
/// Each names file, offset, expected, found.
absl::StatusOr<ImportedGraph> ImportHnswlib(const std::string& path, const VectorFile& base,
                                            Metric metric);

/// What its header says, and nothing else is read. Errors: those of ImportHnswlib.
absl::StatusOr<GraphParameters> ReadHnswlibParameters(const std::string& path,
                                                      const VectorFile& base, Metric metric);

}  // namespace hmann
