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

/// The result of a finished build. The callbacks are called from one thread, in id order
/// within a section: links(layer, id) once for every layer and node, row(id) and
/// label(id) once for every node. Their results must stay valid until the next call of
/// the same callback. label(id) is called again, in any order, to build the label order.
struct IndexContents : IndexMetadata {
  bool user_labels = false;  ///< labels take 8 bytes instead of 4 and may be any numbers
  std::function<std::span<const NodeId>(std::uint32_t layer, NodeId id)>
      links;  ///< without kNoNode
  /// row_bytes bytes. nullptr for an unpromoted node leaves its whole record as zeros, a
  /// hole in the file. An index with holes opens and has the size it states, but Verify
  /// refuses it.
  std::function<const std::byte*(NodeId id)> row;
  std::function<std::uint64_t(NodeId id)> label;
  /// Whether WriteIndex chooses scalar_bits (see ChooseScalarCodes), or takes those
  /// given.
  bool choose_scalar = true;
  // Not needed where codes.bits is 0.
  std::vector<CellEntry> cells;          ///< see Cells
  std::vector<NodeId> second_centroids;  ///< with codes.replicas = 2: of node n1 + i
  std::vector<float> code_mean;          ///< dim
  std::function<const std::byte*(NodeId id)>
      code;  ///< codes.code_bytes bytes of an unpromoted node
};

/// Writes a whole index file or nothing: an older file at `path` survives every error.
/// The bytes depend only on `contents`. Errors: INVALID_ARGUMENT (inconsistent contents,
/// a list over its layer's M_i, without user labels a label that is not a unique row
/// number), CANCELLED, RESOURCE_EXHAUSTED (disk full), and the errors of creating a file.
absl::StatusOr<IndexInfo> WriteIndex(const std::string& path, const IndexContents& contents,
                                     Progress& progress,
                                     const std::atomic<bool>* cancelled = nullptr);

}  // namespace hmann
