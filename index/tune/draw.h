#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "index/construct/graph/duplicates.h"
#include "index/format/reader.h"

namespace hmann {

/// Draws vectors of an index that stand for queries: of those without copies, as long as
/// there are enough. A vector whose copies are in the index is found too easily.
class Draw {
 public:
  /// For `most` vectors. `file` must outlive it. Errors: those of ChooseKernels.
  static absl::StatusOr<Draw> Of(const IndexFile& file, std::uint64_t most);

  /// The vector at place `i` of a sequence, from id `first` on.
  NodeId Next(std::uint64_t seed, std::uint64_t i, NodeId first);
  /// Copies hang below the first of them in a tree of links (DuplicateGroups). Without a
  /// node of it no search finds those below, as it would if the node had never been there.
  /// Returns a copy that has none below; the node itself if it has no copies, or if their
  /// links are no tree (of an imported graph).
  NodeId LastCopy(NodeId drawn);

 private:
  Draw(const IndexFile& file, Kernels kernels, std::uint64_t spare)
      : file_(file), kernels_(std::move(kernels)), spare_(spare) {}

  /// Reads the links of a node. Returns a copy that it leads to.
  std::optional<NodeId> CopyNextTo(NodeId node, NodeId but);

  const IndexFile& file_;
  const Kernels kernels_;
  std::uint64_t spare_;  ///< vectors that may still be drawn in place of others
  std::vector<NodeId> links_;
};

}  // namespace hmann
