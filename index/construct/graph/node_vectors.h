#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "index/base/thread_pool.h"
#include "index/construct/graph/vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// Stored vectors by node: in memory, or in the base by row, from where they are copied
/// when they are wanted. What it refers to must outlive it.
struct NodeVectors {
  /// Stored vector `row`, to `place`. From several threads; fast where rows ascend.
  using Copy = std::function<void(std::uint32_t row, std::byte* place)>;

  static NodeVectors InMemory(const StoredVectors& rows, NodeId count) {
    return {.stride = rows.stride, .count = count, .all = rows.rows.data()};
  }

  std::size_t stride = 0;
  NodeId count = 0;
  const std::byte* all = nullptr;              ///< of every node, where they are in memory;
  std::span<const std::uint32_t> row_of = {};  ///< else [node]; empty: a node is its row
  Copy copy = nullptr;
  /// Says that single ones are copied from now on, or again many by row.
  std::function<void(bool)> advise_random = nullptr;

  /// Copies vectors by row, of what is by row.
  Copy Copier() const;
  /// What is by row as that of nodes, each of which has a row; none: a node is its row.
  NodeVectors ByNode(std::span<const std::uint32_t> rows) const {
    return {.stride = stride,
            .count = count,
            .row_of = rows,
            .copy = Copier(),
            .advise_random = advise_random};
  }
  /// That of one node: where it lies, or copied to `place`.
  const std::byte* Take(NodeId node, std::byte* place) const {
    if (all != nullptr) return all + std::size_t{node} * stride;
    copy(row_of.empty() ? node : row_of[node], place);
    return place;
  }
  /// Those of some nodes, in this order, and where they lie read forwards. Takes
  /// kBytesOfGather more of each meanwhile. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<StoredVectors> Gather(std::span<const NodeId> nodes, ThreadPool& pool) const;
  /// The same to where there is room for them.
  void Gather(std::span<const NodeId> nodes, ThreadPool& pool, std::byte* to) const;
  static constexpr std::uint64_t kBytesOfGather = 8;
};

/// Out of a file whose vectors were checked before. Both must outlive it.
NodeVectors::Copy CopyFrom(const VectorFile& file, const Kernels& kernels);

}  // namespace hmann
