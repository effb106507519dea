#include "index/construct/jobs/nearest_lists.h"

#include <algorithm>
#include <cstring>

namespace hmann {

absl::StatusOr<NearestLists> NearestLists::Make(NodeId nodes, std::uint32_t length, NodeId first) {
  NearestLists lists;
  lists.first_ = first;
  lists.nodes_ = nodes;
  lists.length_ = length;
  absl::StatusOr<Buffer> entries = Buffer::Allocate(std::size_t{nodes} * length * sizeof(Entry));
  if (!entries.ok()) return entries.status();
  lists.entries_ = *std::move(entries);
  std::memset(lists.entries_.data(), 0xff, std::size_t{nodes} * length * sizeof(Entry));
  return lists;
}

std::span<const NodeId> NearestLists::First(NodeId node, std::uint32_t most,
                                            std::vector<NodeId>* ids) const {
  ids->clear();
  const Entry* list = List(node);
  for (std::uint32_t i = 0; i < std::min(most, length_) && list[i] != kNone; ++i)
    ids->push_back(static_cast<NodeId>(list[i]));
  return *ids;
}

DistanceKey NearestLists::Bound(NodeId node) const {
  const std::lock_guard lock(locks_[node % kLocks]);
  return static_cast<DistanceKey>(List(node)[length_ - 1] >> 32);
}

DistanceKey NearestLists::Merge(NodeId node, std::span<const Entry> entries,
                                std::vector<Entry>& scratch) {
  scratch.resize(length_);
  const std::lock_guard lock(locks_[node % kLocks]);
  Entry* list = List(node);
  std::size_t kept = 0, added = 0;
  for (Entry& entry : scratch) {
    const Entry next = added < entries.size() ? entries[added] : kNone;
    entry = std::min(list[kept], next);
    kept += list[kept] <= next ? 1 : 0;
    while (added < entries.size() && entries[added] <= entry) ++added;
  }
  std::copy(scratch.begin(), scratch.end(), list);
  return static_cast<DistanceKey>(list[length_ - 1] >> 32);
}

}  // namespace hmann
