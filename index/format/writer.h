#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "index/format/header.h"
#include "index/graph/cells.h"

namespace hmann {

/// What a finished build hands over. The callbacks are called from one thread, in id
/// order within a section: links(layer, id) once for every layer and node, row(id) and
/// label(id) once for every node; what they return stays valid until the next call of the
/// same callback. label(id) is asked for again, in any order, to put ids into the order
/// of labels.
struct IndexContents : IndexMetadata {
  bool user_labels = false;  ///< labels take 8 bytes instead of 4, and are any numbers
  std::function<std::span<const NodeId>(std::uint32_t layer, NodeId id)>
      links;  ///< without kNoNode
  /// row_bytes bytes. nullptr for an unpromoted node: its whole record is left as zeros,
  /// a hole in the file. An index with holes opens, and is as large as it says, but
  /// Verify refuses it.
  std::function<const std::byte*(NodeId id)> row;
  std::function<std::uint64_t(NodeId id)> label;
  // None of these is asked for where codes.bits is 0.
  std::vector<CellEntry> cells;          ///< see Cells
  std::vector<NodeId> second_centroids;  ///< with codes.replicas = 2: of node n1 + i
  std::vector<float> code_mean;          ///< dim
  std::function<const std::byte*(NodeId id)>
      code;  ///< codes.code_bytes bytes of an unpromoted node
};

/// Writes a whole index file, or nothing: an older file at `path` survives every error.
/// The bytes depend on `contents` alone. Errors: INVALID_ARGUMENT (contents that
/// contradict themselves, a list over its layer's M_i, a label that is no row number of
/// its own where the user gave none), CANCELLED, RESOURCE_EXHAUSTED (disk full) and
/// whatever creating a file gives.
absl::StatusOr<IndexInfo> WriteIndex(const std::string& path, const IndexContents& contents,
                                     Progress& progress,
                                     const std::atomic<bool>* cancelled = nullptr);

}  // namespace hmann
