#include "index/build/fast_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann {
namespace {

/// Beam, visited set and batch of one search at its widest ordinary setting (ef 400 on M = 48).
constexpr std::uint64_t kScratchPerThread = 512_KiB;

std::uint64_t FastBytes(NodeId n, NodeId n1, std::uint32_t m, std::uint32_t row_bytes, std::uint32_t label_bytes) {
  return PayloadOf(Layers::Make(n, n1, m), row_bytes).fast() + static_cast<std::uint64_t>(n1) * label_bytes;
}

}  // namespace

PayloadBytes PayloadOf(const Layers& layers, std::uint32_t row_bytes) {
  PayloadBytes bytes;
  for (std::uint32_t layer = 0; layer <= layers.top(); ++layer) {
    const std::uint64_t links = std::uint64_t{4} * layers.nodes[layer] * layers.MaxDegree(layer);
    (layer == 0 ? bytes.l0_links : bytes.upper_links) += links;
  }
  bytes.fast_vectors = std::uint64_t{layers.n1()} * row_bytes;
  bytes.slow_vectors = std::uint64_t{layers.n() - layers.n1()} * row_bytes;
  return bytes;
}

std::uint64_t ReservedFastBytes(std::uint64_t fast_memory_bytes, int threads) {
  return std::min<std::uint64_t>(2_GiB, fast_memory_bytes / 50) + static_cast<std::uint64_t>(threads) * kScratchPerThread;
}

absl::StatusOr<NodeId> LargestN1(NodeId n, std::uint32_t m, std::uint32_t row_bytes, std::uint32_t label_bytes,
                                 std::uint64_t fast_memory_bytes, int threads) {
  const auto fits = [&](NodeId n1) {
    return FastBytes(n, n1, m, row_bytes, label_bytes) + ReservedFastBytes(fast_memory_bytes, threads) <= fast_memory_bytes;
  };
  if (n < 2) return absl::InvalidArgumentError("--fast-memory: an index of one vector has no upper layer to place");
  if (!fits(1)) {
    // Reserve and payload for one node; the reserve grows with the budget, by at most a fiftieth.
    const std::uint64_t payload = FastBytes(n, 1, m, row_bytes, label_bytes);
    std::uint64_t smallest = payload + ReservedFastBytes(0, threads);
    while (payload + ReservedFastBytes(smallest, threads) > smallest) smallest = payload + ReservedFastBytes(smallest, threads);
    return absl::ResourceExhaustedError(absl::StrCat("--fast-memory ", fast_memory_bytes,
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
