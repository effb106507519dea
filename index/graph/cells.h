#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/base/prefetch.h"
#include "index/graph/types.h"

namespace hmann {

/// A cell as the index file has it: the unpromoted nodes from `first` up to the next cell's first are nearest to promoted node `hub`.
struct CellEntry {
  NodeId hub = 0;
  NodeId first = 0;
};

/// Which unpromoted nodes belong to which promoted one, their hub. Ids from n1 on are ordered by cell, so that a cell is a contiguous range
/// of ids, of sketches and of records; cells that are near each other have near numbers. Lookups both ways in a few loads.
/// A quarter of a byte a node and 12 bytes a hub. Immutable; thread-safe.
class Cells {
 public:
  Cells() = default;
  /// `entries`: ascending by first, the first at n1, hubs distinct and below n1 (see CellFault). `second_hubs`: of node n1 + i, or empty:
  /// each node is then listed with that hub too.
  Cells(NodeId n, NodeId n1, std::span<const CellEntry> entries, std::span<const NodeId> second_hubs);

  bool empty() const { return hubs_.empty(); }
  NodeId HubOf(NodeId id) const { return HubOfCell(CellOf(id)); }
  /// HubOf in two steps, each of which reads one cache line: ask for it first where many are looked up.
  void PrefetchCellOf(NodeId id) const { PrefetchLines(&words_[(id - n1_) / 64], 1); }
  std::uint32_t CellOf(NodeId id) const {
    const NodeId place = id - n1_;
    const Word& word = words_[place / 64];
    return word.before + CountBits(word.starts & (~std::uint64_t{0} >> (63 - place % 64))) - 1;
  }
  void PrefetchHubOfCell(std::uint32_t cell) const { PrefetchLines(&hubs_[cell], 1); }
  NodeId HubOfCell(std::uint32_t cell) const { return hubs_[cell]; }
  /// MembersOf and GuestsOf in two steps, as HubOf: first the one, for all hubs, then the other.
  void PrefetchCellsOf(NodeId hub) const {
    PrefetchLines(&cell_of_[hub], 1);
    if (!guests_.empty()) PrefetchLines(&guest_begin_[hub], 2 * sizeof(std::uint32_t));
  }
  void PrefetchLists(NodeId hub) const {
    if (cell_of_[hub] != kNoNode) PrefetchLines(&first_[cell_of_[hub]], 2 * sizeof(NodeId));
    if (!guests_.empty()) PrefetchLines(guests_.data() + guest_begin_[hub], (guest_begin_[hub + 1] - guest_begin_[hub]) * sizeof(NodeId));
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
  /// 64 unpromoted nodes.
  struct Word {
    std::uint64_t starts = 0;  ///< a bit for each: a cell begins here
    std::uint32_t before = 0;  ///< cells that begin before them
  };

  /// std::popcount is a call to a table where no instruction set beyond the base is assumed.
  static std::uint32_t CountBits(std::uint64_t bits) {
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<std::uint32_t>(bits * 0x0101010101010101u >> 56);
  }

  NodeId n1_ = 0;
  std::vector<NodeId> hubs_;            ///< [cell]
  std::vector<NodeId> first_;           ///< [cell], and n at the end
  std::vector<std::uint32_t> cell_of_;  ///< [hub]; kNoNode: it has no members
  std::vector<Word> words_;
  std::vector<std::uint32_t> guest_begin_;
  std::vector<NodeId> guests_;
};

/// Index of the first entry that breaks the rules of Cells, entries.size() when the cells do not begin at n1, -1 when all is well.
std::int64_t CellFault(NodeId n, NodeId n1, std::span<const CellEntry> entries);

}  // namespace hmann
