#pragma once

#include <cstdint>
#include <vector>

#include "index/construct/graph/duplicates.h"
#include "index/graph/types.h"

namespace hmann {

/// Maps the nodes of L0 under construction to rows of the base file.
struct InsertionOrder {
  std::vector<std::uint32_t> row_of;  ///< [node]
  NodeId inserted = 0;  ///< nodes [0, inserted) are inserted; the others are their copies
  std::vector<std::vector<NodeId>> equal;  ///< nodes with equal vectors; the first one is inserted
};

/// Puts the first node of each group in random order, so that a sorted base file makes no
/// difference, and their copies behind them.
InsertionOrder RandomOrder(DuplicateGroups duplicates, NodeId n, std::uint64_t seed);

/// Puts unique vectors in the order places[node] of duplicates.unique.
InsertionOrder OrderOf(DuplicateGroups duplicates, NodeId n,
                       const std::vector<std::uint32_t>& places);
/// The order of a finished graph: its rows as they are, all of them inserted.
InsertionOrder OrderOfRows(DuplicateGroups duplicates, NodeId n);

}  // namespace hmann
