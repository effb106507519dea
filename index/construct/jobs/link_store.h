#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/construct/jobs/stages.h"
#include "index/graph/types.h"

namespace hmann {

/// Appends a list of nodes of any length. The last node of each list has its highest bit
/// set, which no node number has. An empty list is kNoNode.
void PutList(std::span<const NodeId> list, std::vector<NodeId>* out);

/// The mapped lists of the nodes of a range.
class StoredLinks {
 public:
  /// Maps what `stage` made for a range. Errors: those of Artifacts::Map; DATA_LOSS if
  /// the number of lists is wrong.
  static absl::StatusOr<StoredLinks> Map(const Stages& stages, const std::string& stage,
                                         std::size_t job, NodeRange range);

  /// Appends the list of a node of the range.
  void Append(NodeId node, std::vector<NodeId>* list) const;
  /// Memory in bytes, without the mapped file.
  std::uint64_t bytes() const { return ends_.size() * sizeof(ends_[0]); }

 private:
  NodeId first_ = 0;
  Buffer file_;
  std::vector<std::uint64_t> ends_;  ///< [node - first], except the last, which ends with the file
};

/// Writes the links from the nodes of a range to other ranges, grouped by target range,
/// as differences.
class WayWriter {
 public:
  /// `range`: nodes per range; `count`: number of ranges.
  WayWriter(NodeId range, std::size_t count) : range_(range), of_(count) {}
  /// Adds the links of the next node; call in the order of nodes.
  void Add(NodeId node, std::span<const NodeId> links);
  absl::Status Write(ArtifactWriter& writer) const;

 private:
  struct Ways {
    NodeId node = 0;  ///< the last that was added
    std::vector<std::byte> bytes;
  };
  NodeId range_;
  std::vector<Ways> of_;  ///< [range]
};

/// The sources of links to each node of a range.
class LinkSources {
 public:
  /// `ways`: what WayWriter wrote, for every range; `own`: the links of the range itself.
  /// Errors: DATA_LOSS.
  static absl::StatusOr<LinkSources> Make(const std::vector<NodeRange>& ranges, std::size_t range,
                                          std::span<const Buffer> ways, const StoredLinks& own,
                                          ThreadPool& pool);
  /// The nodes that link to `node`, ascending.
  std::span<const NodeId> Of(NodeId node) const {
    const std::uint64_t begin = node == first_ ? 0 : ends_[node - first_ - 1];
    return {nodes_.data() + begin, nodes_.data() + ends_[node - first_]};
  }
  std::uint64_t bytes() const {
    return nodes_.size() * sizeof(nodes_[0]) + ends_.size() * sizeof(ends_[0]);
  }

 private:
  NodeId first_ = 0;
  std::vector<std::uint64_t> ends_;  ///< [node - first]
  std::vector<NodeId> nodes_;
};

}  // namespace hmann
