#include "index/construct/fast_memory.h"

#include <algorithm>

#include "index/base/units.h"

namespace hmann {
namespace {

/// Beam, visited set and batch of one search at its widest usual setting (ef 400 on M =
/// 48).
constexpr std::uint64_t kScratchPerThread = 512_KiB;
/// As OpenOptions::read_buffer_bytes.
constexpr std::uint64_t kReadBuffersPerThread = 16_MiB;

}  // namespace

// With codes, a centroid takes 12 bytes of Cells and an unpromoted node a quarter of one
// (index/graph/cells.h).
std::uint64_t FastBytes(const FastShape& shape, NodeId n1) {
  const std::uint64_t others = shape.n - n1;
  const std::uint64_t cells = shape.code_bytes > 0 ? std::uint64_t{n1} * 12 + others / 4 : 0;
  return Layers::Make(shape.n, n1, shape.m).UpperLinkBytes() +
         std::uint64_t{n1} * (shape.row_bytes + shape.label_bytes) + others * shape.code_bytes +
         cells;
}

std::uint64_t ReservedFastBytes(std::uint64_t fast_memory_bytes, int threads) {
  const auto searches = static_cast<std::uint64_t>(threads);
  return std::min(searches * kReadBuffersPerThread, fast_memory_bytes / 50) +
         searches * kScratchPerThread;
}

}  // namespace hmann
