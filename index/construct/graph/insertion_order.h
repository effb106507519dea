#pragma once

#include <cstdint>
#include <vector>

#include "index/construct/graph/duplicates.h"
#include "index/graph/types.h"

namespace hmann {

/// Which row of the base file is which node of L0 while it is built.
struct InsertionOrder {
  std::vector<std::uint32_t> row_of;  ///< [node]
  NodeId inserted = 0;  ///< nodes 0 .. inserted - 1 are inserted; the others hang below one of them
  std::vector<std::vector<NodeId>>
      equal;  ///< nodes with equal vectors, first the one that is inserted
};

/// Firsts in random order, so that a sorted base file makes no difference; their copies
/// behind them.
InsertionOrder RandomOrder(DuplicateGroups duplicates, NodeId n, std::uint64_t seed);

/// Unique vectors in the order places[node] of duplicates.unique.
InsertionOrder OrderOf(DuplicateGroups duplicates, NodeId n,
                       const std::vector<std::uint32_t>& places);
/// That of a finished graph: its rows as they are, all of them in it.
InsertionOrder OrderOfRows(DuplicateGroups duplicates, NodeId n);

}  // namespace hmann
