#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/construct/jobs/joined_layer.h"
#include "index/construct/jobs/stages.h"

namespace hmann {

/// The nodes of L1 that are joined, as files: their ids, and each id's row of the base.
class UpperNodes {
 public:
  /// Writes the files if they do not exist. `row_of`: of all promoted nodes, by id.
  static absl::Status Write(std::span<const NodeId> ids, std::span<const std::uint32_t> row_of,
                            const Stages& stages);
  /// Errors: DATA_LOSS if they do not exist.
  static absl::StatusOr<UpperNodes> Map(const Stages& stages);

  std::span<const NodeId> ids() const {
    return {reinterpret_cast<const NodeId*>(ids_.data()), ids_.size() / sizeof(NodeId)};
  }
  /// Returns a function that copies the vector of an id out of the base; valid as long as
  /// this.
  NodeVectors::Copy Copy(NodeVectors::Copy of_row) const;

 private:
  Buffer ids_, row_of_;
};
bool HasUpperNodes(const Stages& stages);

/// A joined layer: links between places, and the id of each place.
struct JoinedUpper {
  std::vector<NodeId> id_of;  ///< [place]
  PackedLists links;          ///< by place
};
/// Joins `source.unique`, which holds ids. Errors: those of JoinedLayer.
absl::StatusOr<JoinedUpper> JoinUpper(const JoinedSource& source, const Stages& stages);

}  // namespace hmann
