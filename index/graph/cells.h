#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// A cell as the index file has it: the unpromoted nodes from `first` up to the next cell's first are nearest to promoted node `hub`.
struct CellEntry {
  NodeId hub = 0;
  NodeId first = 0;
};

/// Which unpromoted nodes belong to which promoted one, their hub. Ids from n1 on are ordered by cell, so that a cell is a contiguous range
/// of ids, of sketches and of records; cells that are near each other have near numbers. Lookups both ways in a few loads.
/// About 0.2 bytes a node and 12 a hub. Immutable; thread-safe.
class Cells {
 public:
  Cells() = default;
  /// `entries`: ascending by first, the first at n1, hubs distinct and below n1 (see CellFault). `second_hubs`: of node n1 + i, or empty:
  /// each node is then listed with that hub too.
  Cells(NodeId n, NodeId n1, std::span<const CellEntry> entries, std::span<const NodeId> second_hubs);

  bool empty() const { return hubs_.empty(); }
  NodeId HubOf(NodeId id) const {
    const NodeId place = id - n1_;
    const std::uint64_t up_to = starts_[place / 64] & (~std::uint64_t{0} >> (63 - place % 64));
    return hubs_[before_[place / 64] + static_cast<std::uint32_t>(std::popcount(up_to)) - 1];
  }
  /// [begin, end) of the ids whose hub is `hub`.
  std::pair<NodeId, NodeId> MembersOf(NodeId hub) const {
    const std::uint32_t cell = cell_of_[hub];
    return cell == kNoNode ? std::pair(n1_, n1_) : std::pair(first_[cell], first_[cell + 1]);
  }
  /// Ids of other cells' members whose second-nearest hub is `hub`.
  std::span<const NodeId> GuestsOf(NodeId hub) const {
    if (guests_.empty()) return {};
    return std::span(guests_).subspan(guest_begin_[hub], guest_begin_[hub + 1] - guest_begin_[hub]);
  }
  std::uint64_t bytes() const;

 private:
  NodeId n1_ = 0;
  std::vector<NodeId> hubs_;            ///< [cell]
  std::vector<NodeId> first_;           ///< [cell], and n at the end
  std::vector<std::uint32_t> cell_of_;  ///< [hub]; kNoNode: it has no members
  std::vector<std::uint64_t> starts_;   ///< a bit for each unpromoted node: a cell begins here
  std::vector<std::uint32_t> before_;   ///< [word of starts_]: cells that begin before it
  std::vector<std::uint32_t> guest_begin_;
  std::vector<NodeId> guests_;
};

/// Index of the first entry that breaks the rules of Cells, entries.size() when the cells do not begin at n1, -1 when all is well.
std::int64_t CellFault(NodeId n, NodeId n1, std::span<const CellEntry> entries);

}  // namespace hmann
