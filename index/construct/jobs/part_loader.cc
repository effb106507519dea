#include "index/construct/jobs/part_loader.h"

#include <algorithm>

#include "index/base/status_macros.h"

namespace hmann {

PartLoader::PartLoader(const NodeVectors& vectors, std::uint64_t room, const Costs& costs,
                       const TaskContext& job)
    : vectors_(vectors), room_(room), costs_(costs), job_(job), nodes_(vectors.count) {
  if (has_all()) {
    loaded_ = {Buffer::View(vectors.all, std::size_t{vectors.count} * vectors.stride),
               vectors.stride};
    nodes_.AddFirst(vectors.count);
    nodes_.Number();
    list_ = nodes_.Nodes();
  }
  size_ = costs_.at_first;
  if (size_ > 0) return;
  // Neighbors mostly need each other, so assume twice as many vectors as places.
  const std::uint64_t each = costs_.of_part + 2 * (BytesOf(vectors_) + costs_.of_loaded);
  size_ = static_cast<NodeId>(std::min<std::uint64_t>(room_ / each, kNoNode / 2));
}

absl::Status PartLoader::For(NodeRange range, NodeId run, const Collect& collect,
                             const std::function<absl::Status(NodeRange)>& make) {
  for (NodeId first = range.first; first < range.last;) {
    HMANN_RETURN_IF_ERROR(job_.CheckCancelled());
    if (first < places_.first || first >= places_.last)
      HMANN_RETURN_IF_ERROR(Load({first, range.last}, run, collect));
    const NodeRange part{first, std::min(range.last, places_.last)};
    HMANN_RETURN_IF_ERROR(make(part));
    first = part.last;
  }
  return absl::OkStatus();
}

absl::Status PartLoader::Load(NodeRange range, NodeId run, const Collect& collect) {
  const NodeId few = costs_.few, end = std::max(range.last, run);
  ++loads_;
  if (has_all()) {
    places_ = {range.first, end};
    collect(places_, nullptr);
    return absl::OkStatus();
  }
  loaded_ = {};
  list_ = {};
  for (;;) {
    size_ = std::max(size_ - size_ % few, few);
    places_ = {range.first, range.first + std::min(size_, end - range.first)};
    nodes_.Clear();
    const std::uint64_t besides = collect(places_, &nodes_);
    const std::uint64_t each = BytesOf(vectors_) + costs_.of_loaded;
    const std::uint64_t need =
        besides + nodes_.Number() * each + std::min(places_.size(), range.size()) * costs_.of_part;
    fits_ = need <= room_ || !costs_.only_what_fits;
    // The smallest part may exceed the room.
    if (need <= room_ || places_.size() <= few) {
      if (need <= room_ / 2)
        size_ = static_cast<NodeId>(std::min<std::uint64_t>(kNoNode / 2, std::uint64_t{size_} * 2));
      break;
    }
    size_ = (places_.size() + 1) / 2;
  }
  list_ = nodes_.Nodes();
  if (!fits_) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(loaded_, vectors_.Gather(list_, job_.pool));
  return absl::OkStatus();
}

}  // namespace hmann
