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

/// Lists of nodes that are not all of one length, one behind the other: the last node of
/// each has its highest bit set, which no number has, and one that is empty is kNoNode.
void PutList(std::span<const NodeId> list, std::vector<NodeId>* out);

/// Such lists of the nodes of a range, mapped.
class StoredLinks {
 public:
  /// What `stage` made of a range. Errors: those of Artefacts::Map; DATA_LOSS where the
  /// lists are not as many.
  static absl::StatusOr<StoredLinks> Map(const Stages& stages, const std::string& stage,
                                         std::size_t job, NodeRange range);

  /// Appends that of a node of the range.
  void Append(NodeId node, std::vector<NodeId>* list) const;
  /// Of memory.
  std::uint64_t bytes() const { return ends_.size() * sizeof(ends_[0]); }

 private:
  NodeId first_ = 0;
  Buffer file_;
  std::vector<std::uint64_t> ends_;  ///< [node - first], of all but the last: the file's
};

/// Where links from the nodes of a range lead to in other ranges: by the range that they
/// lead to, as differences.
class WayWriter {
 public:
  /// `range`: nodes of each range; `count`: ranges.
  WayWriter(NodeId range, std::size_t count) : range_(range), of_(count) {}
  /// The links of the next node, in the order of nodes.
  void Add(NodeId node, std::span<const NodeId> links);
  absl::Status Write(ArtefactWriter& writer) const;

 private:
  struct Ways {
    NodeId node = 0;  ///< the last that was added
    std::vector<std::byte> bytes;
  };
  NodeId range_;
  std::vector<Ways> of_;  ///< [range]
};

/// The nodes that lead to each node of a range.
class LinkSources {
 public:
  /// `ways`: what WayWriter wrote, of every range; `own`: the links of the range itself.
  /// Errors: DATA_LOSS.
  static absl::StatusOr<LinkSources> Make(const std::vector<NodeRange>& ranges, std::size_t range,
                                          std::span<const Buffer> ways, const StoredLinks& own);
  /// Ascending.
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
