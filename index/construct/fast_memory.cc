#include "index/construct/fast_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann {
namespace {

/// Beam, visited set and batch of one search at its widest ordinary setting (ef 400 on M
/// = 48).
constexpr std::uint64_t kScratchPerThread = 512_KiB;

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
  return std::min<std::uint64_t>(2_GiB, fast_memory_bytes / 50) +
         static_cast<std::uint64_t>(threads) * kScratchPerThread;
}

absl::StatusOr<NodeId> LargestN1(const FastShape& shape, std::uint64_t fast_memory_bytes,
                                 int threads) {
  const NodeId n = shape.n;
  const auto fits = [&](NodeId n1) {
    return FastBytes(shape, n1) + ReservedFastBytes(fast_memory_bytes, threads) <=
           fast_memory_bytes;
  };
  if (n < 2)
    return absl::InvalidArgumentError(
        "--fast-memory: an index of one vector has no upper layer to place");
  if (!fits(1)) {
    // Reserve and payload for one node; the reserve grows with the budget, by at most a
    // fiftieth.
    const std::uint64_t payload = FastBytes(shape, 1);
    std::uint64_t smallest = payload + ReservedFastBytes(0, threads);
    while (payload + ReservedFastBytes(smallest, threads) > smallest)
      smallest = payload + ReservedFastBytes(smallest, threads);
    return absl::ResourceExhaustedError(
        absl::StrCat("--fast-memory ", fast_memory_bytes,
                     " is too small: a first promoted node and the scratch of ", threads,
                     " search threads need ", smallest, " bytes (", FormatSize(smallest), ")"));
  }
  NodeId low = 1, high = n;  // fits(low), not fits(high) or high = n
  while (high - low > 1) {
    const NodeId middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace hmann
