#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "hmann/distance.h"
#include "index/construct/graph/vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// How vectors are put into overlapping leaves, within which all are compared with all
/// (PiPNN, arXiv 2602.21247: ball carving by random leaders).
struct PartitionOptions {
  std::uint32_t leaders = 1000;  ///< of a split, at most; of the first, that all are compared with
  std::uint32_t fan = 8;         ///< nearest leaders that a vector follows in the first split,
  std::uint32_t fan_below = 2;   ///< and in the second; one in those that follow
  std::uint32_t group = 12'000;  ///< followers of a leader of the first split, if those are more
  std::uint32_t leaf = 400;      ///< vectors of a leaf, at most
  std::uint64_t seed = 1;
};

/// For n vectors: a constant fan would lose neighbours with n. The numbers are of 60,000
/// and a million vectors of two sets (doc/paper.md, 12.h): elsewhere they are a guess.
PartitionOptions PartitionFor(std::uint64_t n, std::uint64_t seed);

/// Splits the members of a group until every leaf fits, and hands each to `leaf`. What
/// cannot be told apart (nearly all members follow one leader) is cut by place.
void ForEachLeaf(std::span<const NodeId> members, const StoredVectors& vectors,
                 const Kernels& kernels, const PartitionOptions& options,
                 const std::function<void(std::span<const NodeId>)>& leaf);

}  // namespace hmann
