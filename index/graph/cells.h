#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/base/bits.h"
#include "index/base/prefetch.h"
#include "index/graph/types.h"

namespace hmann {

/// A cell as stored in the index file. Promoted node `centroid` is the nearest centroid
/// of the unpromoted nodes from `first` up to the next cell's first.
struct CellEntry {
  NodeId centroid = 0;
  NodeId first = 0;
};

/// Maps each unpromoted node to its centroid, a promoted node, and back. Ids from n1 on
/// are ordered by cell, so that a cell is a contiguous range of ids, of codes and of
/// records. Cells near each other have near numbers. A lookup in either direction takes a
/// few loads. Takes a quarter of a byte a node and 12 bytes a centroid. Immutable;
/// thread-safe.
class Cells {
 public:
  Cells() = default;
  /// `entries`: ascending by first, the first at n1, centroids distinct and below n1 (see
  /// CellFault). `second_centroids`: that of node n1 + i, or empty. If present, each node
  /// is also listed with that centroid.
  Cells(NodeId n, NodeId n1, std::span<const CellEntry> entries,
        std::span<const NodeId> second_centroids);

  bool empty() const { return centroids_.empty(); }
  NodeId CentroidOf(NodeId id) const { return CentroidOfCell(CellOf(id)); }
  /// CentroidOf in two steps, each of which reads one cache line. Prefetch it first when
  /// many are looked up.
  void PrefetchCellOf(NodeId id) const { PrefetchLines(&words_[(id - n1_) / 64], 1); }
  std::uint32_t CellOf(NodeId id) const {
    const NodeId place = id - n1_;
    const Word& word = words_[place / 64];
    return word.before + CountBits(word.starts & (~std::uint64_t{0} >> (63 - place % 64))) - 1;
  }
  void PrefetchCentroidOfCell(std::uint32_t cell) const { PrefetchLines(&centroids_[cell], 1); }
  NodeId CentroidOfCell(std::uint32_t cell) const { return centroids_[cell]; }
  /// MembersOf and ReplicasOf in two steps, as CentroidOf: call the first one for all
  /// centroids, then the other.
  void PrefetchCellsOf(NodeId centroid) const {
    PrefetchLines(&cell_of_[centroid], 1);
    if (!replicas_.empty()) PrefetchLines(&replica_begin_[centroid], 2 * sizeof(std::uint32_t));
  }
  void PrefetchLists(NodeId centroid) const {
    if (cell_of_[centroid] != kNoNode)
      PrefetchLines(&first_[cell_of_[centroid]], 2 * sizeof(NodeId));
    if (!replicas_.empty())
      PrefetchLines(replicas_.data() + replica_begin_[centroid],
                    (replica_begin_[centroid + 1] - replica_begin_[centroid]) * sizeof(NodeId));
  }
  /// [begin, end) of the ids whose centroid is `centroid`.
  std::pair<NodeId, NodeId> MembersOf(NodeId centroid) const {
    const std::uint32_t cell = cell_of_[centroid];
    return cell == kNoNode ? std::pair(n1_, n1_) : std::pair(first_[cell], first_[cell + 1]);
  }
  /// Ids of other cells' members whose second-nearest centroid is `centroid`.
  std::span<const NodeId> ReplicasOf(NodeId centroid) const {
    if (replicas_.empty()) return {};
    return std::span(replicas_).subspan(replica_begin_[centroid],
                                        replica_begin_[centroid + 1] - replica_begin_[centroid]);
  }
  /// How many ids MembersOf and ReplicasOf list together.
  std::uint32_t CodesOf(NodeId centroid) const {
    const auto [begin, end] = MembersOf(centroid);
    return static_cast<std::uint32_t>(end - begin + ReplicasOf(centroid).size());
  }
  /// Sum of CodesOf over `nprobe` centroids if all cells were alike.
  std::uint64_t MeanCodes(std::uint32_t nprobe) const {
    return (first_.back() - n1_ + replicas_.size()) * nprobe / cell_of_.size();
  }
  std::uint64_t bytes() const;

 private:
  /// A group of 64 unpromoted nodes.
  struct Word {
    std::uint64_t starts = 0;  ///< one bit for each node: a cell begins here
    std::uint32_t before = 0;  ///< cells that begin before these nodes
  };

  NodeId n1_ = 0;
  std::vector<NodeId> centroids_;       ///< [cell]
  std::vector<NodeId> first_;           ///< [cell], then n at the end
  std::vector<std::uint32_t> cell_of_;  ///< [centroid]; kNoNode: no members
  std::vector<Word> words_;
  std::vector<std::uint32_t> replica_begin_;
  std::vector<NodeId> replicas_;
};

/// Index of the first entry that breaks the rules of Cells; entries.size() when the cells
/// do not begin at n1; -1 when all is well.
std::int64_t CellFault(NodeId n, NodeId n1, std::span<const CellEntry> entries);

}  // namespace hmann
