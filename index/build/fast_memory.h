#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "index/graph/layers.h"

namespace hmann {

/// Payload bytes by section 7 of the readings, 4-byte links:
///   fast = sum_{i>=1} N_i * M_i * 4 + N_1 * row_bytes,   slow = N_0 * M_0 * 4 + (N_0 - N_1) * row_bytes.
struct PayloadBytes {
  std::uint64_t upper_links = 0, fast_vectors = 0, l0_links = 0, slow_vectors = 0;
  std::uint64_t fast() const { return upper_links + fast_vectors; }
  std::uint64_t slow() const { return l0_links + slow_vectors; }
};
PayloadBytes PayloadOf(const Layers& layers, std::uint32_t row_bytes);

/// What is taken off the fast memory before the upper layers: migration space min(2 GiB, 2 %) and the scratch of `threads` searches.
std::uint64_t ReservedFastBytes(std::uint64_t fast_memory_bytes, int threads);

/// What fast memory has to hold.
struct FastShape {
  NodeId n = 0;
  std::uint32_t m = 0, row_bytes = 0, label_bytes = 0;
  std::uint32_t sketch_bytes = 0;  ///< of each unpromoted node, second hub included
};

/// Upper links, promoted rows and labels, sketches of the others, and cells; without the reserve. 0 < n1 < n.
std::uint64_t FastBytes(const FastShape& shape, NodeId n1);

/// The paper's rule: the largest N_1 < n whose fast payload, labels, sketches of the others and reserve fit.
/// Errors: RESOURCE_EXHAUSTED naming the smallest budget that would do.
absl::StatusOr<NodeId> LargestN1(const FastShape& shape, std::uint64_t fast_memory_bytes, int threads);

}  // namespace hmann
