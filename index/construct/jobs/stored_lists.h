#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/status_macros.h"
#include "index/construct/graph/packed_lists.h"
#include "index/construct/jobs/nearest_links.h"
#include "index/construct/jobs/stages.h"

namespace hmann {

/// Lists of the nearest, in two files per range. The part that other nodes read is always
/// mapped, the rest on demand.
class StoredLists {
 public:
  static absl::StatusOr<StoredLists> Map(const Stages& stages, NodeId n, std::uint32_t length) {
    StoredLists lists;
    lists.stages_ = &stages;
    lists.length_ = length;
    lists.n_ = n;
    lists.range_ = stages.Ranges(n)[0].size();
    lists.rest_.resize(stages.Ranges(n).size());
    HMANN_ASSIGN_OR_RETURN(Buffer first, stages.Map("lists", n));
    lists.first_ = {std::move(first), FirstPacking(length, n)};
    return lists;
  }
  /// How the two files pack lists of `length` out of n nodes.
  static LinkPacking FirstPacking(std::uint32_t length, NodeId n) {
    return LinkPacking::Of(NodeLinker::AnsweredOf(length), n);
  }
  static LinkPacking RestPacking(std::uint32_t length, NodeId n) {
    return LinkPacking::Of(length - NodeLinker::AnsweredOf(length), n);
  }
  std::uint32_t length() const { return length_; }

  absl::Status NeedRest(NodeRange nodes) {
    for (std::size_t r = nodes.first / range_; r <= (nodes.last - 1) / range_; ++r) {
      if (!rest_[r].empty()) continue;
      HMANN_ASSIGN_OR_RETURN(Buffer rest, stages_->MapOne("rest", r));
      rest_[r] = {std::move(rest), RestPacking(length_, n_)};
    }
    return absl::OkStatus();
  }
  /// Unmaps the rest of a range. A mapped file takes disk space though its name is gone.
  void DropRest(NodeRange nodes) { rest_[nodes.first / range_] = {}; }

  /// The nearest entries, which other nodes read; valid until `scratch` changes.
  std::span<const NodeId> First(NodeId node, std::vector<NodeId>& scratch) const {
    return first_.Read(node, scratch);
  }
  /// Calls `take` with each entry of the list, nearest first. Call after NeedRest.
  template <typename Take>
  void ForEach(NodeId node, std::vector<NodeId>& scratch, const Take& take) const {
    for (const NodeId id : First(node, scratch)) take(id);
    const PackedLists& rest = rest_[node / range_];
    if (rest.empty()) return;  // a list is no longer than its first entries
    for (const NodeId id : rest.Read(node % range_, scratch)) take(id);
  }

 private:
  const Stages* stages_ = nullptr;
  std::uint32_t length_ = 0;
  NodeId n_ = 0, range_ = 0;
  PackedLists first_;
  std::vector<PackedLists> rest_;  ///< [range]
};

}  // namespace hmann
