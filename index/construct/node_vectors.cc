#include "index/construct/node_vectors.h"

#include <algorithm>
#include <vector>

#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<StoredVectors> NodeVectors::Gather(std::span<const NodeId> nodes,
                                                  ThreadPool& pool) const {
  StoredVectors vectors;
  vectors.stride = stride;
  HMANN_ASSIGN_OR_RETURN(vectors.rows, Buffer::Allocate(nodes.size() * stride));
  std::vector<std::uint64_t> moves(nodes.size());  // row, place
  for (std::size_t i = 0; i < nodes.size(); ++i)
    moves[i] = std::uint64_t{row_of[nodes[i]]} << 32 | i;
  std::sort(moves.begin(), moves.end());
  pool.ParallelFor(moves.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
    for (std::size_t i = begin; i < end; ++i) {
      copy(static_cast<std::uint32_t>(moves[i] >> 32),
           vectors.rows.data() + (moves[i] & 0xffffffff) * stride);
    }
  });
  return vectors;
}

}  // namespace hmann
