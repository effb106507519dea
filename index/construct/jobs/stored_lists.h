#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/status_macros.h"
#include "index/construct/graph/insertion_graph.h"
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
    lists.first_length_ = NodeLinker::AnsweredOf(length);
    lists.range_ = stages.Ranges(n)[0].size();
    lists.rest_.resize(stages.Ranges(n).size());
    HMANN_ASSIGN_OR_RETURN(lists.first_, stages.Map("lists", n));
    return lists;
  }
  std::uint32_t length() const { return length_; }

  absl::Status NeedRest(NodeRange nodes) {
    for (std::size_t r = nodes.first / range_; r <= (nodes.last - 1) / range_; ++r) {
      if (rest_[r].size() > 0) continue;
      HMANN_ASSIGN_OR_RETURN(rest_[r], stages_->MapOne("rest", r));
    }
    return absl::OkStatus();
  }
  /// Unmaps the rest of a range. A mapped file takes disk space though its name is gone.
  void DropRest(NodeRange nodes) { rest_[nodes.first / range_] = {}; }

  /// The nearest entries, which other nodes read.
  std::span<const NodeId> First(NodeId node) const { return Cut(first_, node, first_length_); }
  /// Calls `take` with each entry of the list, nearest first. Call after NeedRest.
  template <typename Take>
  void ForEach(NodeId node, const Take& take) const {
    for (const NodeId id : First(node)) take(id);
    for (const NodeId id : Cut(rest_[node / range_], node % range_, length_ - first_length_))
      take(id);
  }

 private:
  static std::span<const NodeId> Cut(const Buffer& file, std::size_t place, std::uint32_t length) {
    const NodeId* ids = reinterpret_cast<const NodeId*>(file.data()) + place * length;
    return {ids, CountLinks(ids, length)};
  }

  const Stages* stages_ = nullptr;
  std::uint32_t length_ = 0, first_length_ = 0;
  NodeId range_ = 0;
  Buffer first_;
  std::vector<Buffer> rest_;  ///< [range]
};

}  // namespace hmann
