#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "index/construct/graph/insertion_graph.h"
#include "index/graph/types.h"

namespace hmann {

/// Byte-for-byte equal vectors wreck a proximity graph: a list full of copies leads
/// nowhere else. So only the first of each group is inserted. The copies hang below it in
/// a binary tree of links (parent and up to two children each). Any search that meets the
/// first meets them all at the same distance.
struct DuplicateGroups {
  std::vector<std::uint32_t> unique;               ///< rows without an equal earlier row, ascending
  std::vector<std::vector<std::uint32_t>> groups;  ///< rows of each group of two or more, ascending
  std::uint64_t copies = 0;                        ///< rows that are not unique
};

struct HashedRow {
  std::uint64_t hash;
  std::uint32_t row;
};

/// Groups rows, given with their hashes. `equal(a, b)` compares two rows of one hash.
DuplicateGroups GroupEqual(std::vector<HashedRow> hashed,
                           const std::function<bool(std::uint32_t, std::uint32_t)>& equal);

/// Links copy `i` of a group, or its first node, with its parent and children. This is
/// what LinkDuplicates does to one list of links; kNoNode pads the list.
void LinkCopy(std::span<const NodeId> group, std::size_t i, std::span<NodeId> links);

/// Links the copies of each group (nodes of graph's bottom layer) below its first node.
/// If the first node's list is full, its last links make room for its children.
void LinkDuplicates(const std::vector<std::vector<NodeId>>& groups, InsertionGraph& graph);

}  // namespace hmann
