#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/base/prefetch.h"
#include "index/construct/jobs/node_range.h"
#include "index/graph/select.h"

namespace hmann {

/// The nearest nodes that each node was compared with: `length` entries (key, id) per
/// node, in order. They do not depend on the order of comparisons or on threads.
class NearestLists {
 public:
  /// Lists of nodes [first, first + nodes). Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<NearestLists> Make(NodeId nodes, std::uint32_t length, NodeId first = 0);

  NodeRange nodes() const { return {first_, first_ + nodes_}; }
  bool Holds(NodeId node) const { return node - first_ < nodes_; }
  std::uint32_t length() const { return length_; }
  /// Puts the nearest `most` ids of a list into `ids`. No merge may run meanwhile.
  std::span<const NodeId> First(NodeId node, std::uint32_t most, std::vector<NodeId>* ids) const;

  using Entry = std::uint64_t;  ///< key << 32 | id: in order of (key, id)
  static constexpr Entry kNone = ~Entry{0};
  static Entry Pack(DistanceKey key, NodeId id) { return static_cast<Entry>(key) << 32 | id; }

  /// The key of the farthest entry in a node's list; the highest key while there is room.
  DistanceKey Bound(NodeId node) const;
  /// Prefetches a node's list into the cache.
  void Prefetch(NodeId node) const { PrefetchLines(List(node), length_ * sizeof(Entry)); }
  /// Merges distinct entries into a node's list and changes their order. Uses `scratch`.
  /// Returns the bound.
  DistanceKey Merge(NodeId node, std::span<const Entry> entries, std::vector<Entry>& scratch);

 private:
  static constexpr std::size_t kLocks = 4096;

  Entry* List(NodeId node) const {
    return reinterpret_cast<Entry*>(entries_.data()) + std::size_t{node - first_} * length_;
  }

  mutable Buffer entries_;
  NodeId first_ = 0, nodes_ = 0;
  std::uint32_t length_ = 0;
  mutable std::vector<std::mutex> locks_{kLocks};
};

}  // namespace hmann
