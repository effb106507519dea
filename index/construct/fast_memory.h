#pragma once

#include <cstdint>

#include "index/graph/layers.h"

namespace hmann {

/// The reserve that is subtracted from fast memory before the upper layers get theirs:
/// the scratch of `threads` searches and, if L0 is on a drive, what they read it into: 16
/// MiB each, at most 2 % in all. `fast_memory_bytes`: 0 if L0 is addressable, since what
/// is prefetched from there lies in the CPU's cache.
std::uint64_t ReservedFastBytes(std::uint64_t fast_memory_bytes, int threads);

/// The quantities that determine what fast memory has to hold.
struct FastShape {
  NodeId n = 0;
  std::uint32_t m = 0, row_bytes = 0, label_bytes = 0;
  std::uint32_t code_bytes = 0;  ///< per unpromoted node, second centroid included
};

/// sum_{i>=1} N_i * M_i * 4 + N_1 * row_bytes (section 7 of doc/paper.md), plus labels of
/// promoted nodes, codes of the others, and cells. The reserve is not included. 0 < n1 <
/// n.
std::uint64_t FastBytes(const FastShape& shape, NodeId n1);

}  // namespace hmann
