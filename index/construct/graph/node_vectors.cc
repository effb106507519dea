#include "index/construct/graph/node_vectors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

struct Move {
  std::uint32_t row, place;
  bool operator<(const Move& other) const { return row < other.row; }
};

}  // namespace

absl::StatusOr<StoredVectors> NodeVectors::Gather(std::span<const NodeId> nodes,
                                                  ThreadPool& pool) const {
  StoredVectors vectors;
  vectors.stride = stride;
  HMANN_ASSIGN_OR_RETURN(vectors.rows, Buffer::Allocate(nodes.size() * stride));
  Gather(nodes, pool, vectors.rows.data());
  return vectors;
}

void NodeVectors::Gather(std::span<const NodeId> nodes, ThreadPool& pool, std::byte* to) const {
  // Each thread reads the base forwards for a part of the nodes, all at the same time.
  const std::size_t part = nodes.size() / static_cast<std::size_t>(pool.threads()) + 1;
  pool.ParallelFor(nodes.size(), std::max<std::size_t>(part, 4096),
                   [&](std::size_t begin, std::size_t end, int) {
                     std::vector<Move> moves(end - begin);
                     for (std::size_t i = begin; i < end; ++i)
                       moves[i - begin] = {row_of.empty() ? nodes[i] : row_of[nodes[i]],
                                           static_cast<std::uint32_t>(i)};
                     if (!std::is_sorted(moves.begin(), moves.end()))
                       std::sort(moves.begin(), moves.end());
                     for (const Move& move : moves) {
                       std::byte* place = to + std::size_t{move.place} * stride;
                       if (all == nullptr)
                         copy(move.row, place);
                       else
                         std::memcpy(place, all + std::size_t{move.row} * stride, stride);
                     }
                   });
}

NodeVectors::Copy NodeVectors::Copier() const {
  if (all == nullptr) return copy;
  return [from = all, bytes = stride](std::uint32_t row, std::byte* place) {
    std::memcpy(place, from + std::size_t{row} * bytes, bytes);
  };
}

NodeVectors::Copy CopyFrom(const VectorFile& file, const Kernels& kernels) {
  return [&file, &kernels](std::uint32_t row, std::byte* place) {
    (void)EncodeRow(kernels, file.dtype(), file.Row(row), place);
  };
}

}  // namespace hmann
