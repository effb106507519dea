#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/construct/stages.h"
#include "index/construct/streamed_layer.h"

namespace hmann {

/// The nodes of L1 that are joined, as files: ids, and stored vectors by id.
class UpperNodes {
 public:
  /// Writes them if they are not there. `rows`: of all promoted, by id.
  static absl::Status Write(std::span<const NodeId> ids, std::span<const std::byte> rows,
                            const Stages& stages);
  /// Errors: DATA_LOSS where they are not there.
  static absl::StatusOr<UpperNodes> Map(const Stages& stages);

  std::span<const NodeId> ids() const {
    return {reinterpret_cast<const NodeId*>(ids_.data()), ids_.size() / sizeof(NodeId)};
  }
  /// Copies the vector of an id; valid as long as this.
  std::function<void(std::uint32_t, std::byte*)> Copy(std::size_t stride) const;

 private:
  Buffer ids_, rows_;
};
bool HasUpperNodes(const Stages& stages);

/// A joined layer: links between places, and which id each is.
struct StreamedUpper {
  std::vector<NodeId> id_of;  ///< [place]
  Buffer links;               ///< by place
};
/// Joins `source.unique`, which are ids. Errors: those of StreamedLayer.
absl::StatusOr<StreamedUpper> MakeStreamedUpper(const StreamedSource& source, const Stages& stages);

}  // namespace hmann
