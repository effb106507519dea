#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hmann/distance.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/graph/types.h"

namespace hmann {

/// Copies wreck a proximity graph: a list full of them leads nowhere else. So only the
/// first of each group is inserted. The copies hang below it in a binary tree of links
/// (parent and up to two children each). Any search that meets the first meets them all
/// at the same distance.
struct DuplicateGroups {
  std::vector<std::uint32_t> unique;               ///< rows that copy no earlier row, ascending
  std::vector<std::vector<std::uint32_t>> groups;  ///< rows of each group of two or more, ascending
  std::uint64_t copies = 0;                        ///< rows that are not unique
};

struct HashedRow {
  std::uint64_t hash;
  std::uint32_t row;
};

/// Tells copies by what the metric sees of them: +0 is -0, and under cosine rows are
/// copies if f32 distances do not tell their directions apart, as those of one vector at
/// several scales. Keeps scratch; one per thread.
class CopyFinder {
 public:
  explicit CopyFinder(const Kernels& kernels)
      : kernels_(kernels), a_(kernels.dim), b_(kernels.dim) {}

  /// Equal rows have equal hashes, and other copies mostly have the same upper bits
  /// (kExactBits). Two that rounding takes to either side of a step of the hash are kept
  /// apart, which does no harm if they are few.
  std::uint64_t Hash(const std::byte* row);
  bool AreCopies(const std::byte* a, const std::byte* b);

 private:
  const Kernels& kernels_;
  std::vector<float> a_, b_;
};

/// The lower bits of a hash tell equal rows from other copies.
constexpr unsigned kExactBits = 24;

/// Groups rows, given with their hashes. `equal(a, b)` compares two rows whose hashes
/// differ in at most the lower kExactBits. It compares each row with a bounded number of
/// groups.
DuplicateGroups GroupEqual(std::vector<HashedRow> hashed,
                           const std::function<bool(std::uint32_t, std::uint32_t)>& equal);

/// Links copy `i` of a group, or its first node, with its parent and children. This is
/// what LinkDuplicates does to one list of links; kNoNode pads the list.
void LinkCopy(std::span<const NodeId> group, std::size_t i, std::span<NodeId> links);

/// Links the copies of each group (nodes of graph's bottom layer) below its first node.
/// If the first node's list is full, its last links make room for its children.
void LinkDuplicates(const std::vector<std::vector<NodeId>>& groups, InsertionGraph& graph);

}  // namespace hmann
