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

/// Stored vectors by node. They lie in memory, or in the base by row, from which they are
/// copied on demand. Everything it refers to must outlive it.
struct NodeVectors {
  /// Copies stored vector `row` to `place`. Thread-safe; fast where rows ascend.
  using Copy = std::function<void(std::uint32_t row, std::byte* place)>;

  static NodeVectors InMemory(const StoredVectors& rows, NodeId count) {
    return {.stride = rows.stride, .count = count, .all = rows.rows.data()};
  }

  std::size_t stride = 0;
  NodeId count = 0;
  const std::byte* all = nullptr;              ///< of every node, if they are in memory;
  std::span<const std::uint32_t> row_of = {};  ///< otherwise [node]; empty: a node is its row
  Copy copy = nullptr;
  /// Announces that single vectors are copied from now on, or many by row again.
  std::function<void(bool)> advise_random = nullptr;

  /// Returns a copier by row, for vectors that are by row.
  Copy Copier() const;
  /// Views vectors that are by row as those of nodes, each with its row. Without `rows` a
  /// node is its row.
  NodeVectors ByNode(std::span<const std::uint32_t> rows) const {
    return {.stride = stride,
            .count = count,
            .row_of = rows,
            .copy = Copier(),
            .advise_random = advise_random};
  }
  /// Returns the vector of one node: where it lies, or copied to `place`.
  const std::byte* Take(NodeId node, std::byte* place) const {
    if (all != nullptr) return all + std::size_t{node} * stride;
    copy(row_of.empty() ? node : row_of[node], place);
    return place;
  }
  /// Returns the vectors of some nodes, in this order, and reads the base forwards. It
  /// takes kBytesOfGather more bytes for each meanwhile. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<StoredVectors> Gather(std::span<const NodeId> nodes, ThreadPool& pool) const;
  /// The same, into memory of the caller.
  void Gather(std::span<const NodeId> nodes, ThreadPool& pool, std::byte* to) const;
  static constexpr std::uint64_t kBytesOfGather = 8;
};

/// Copies out of a file whose vectors were checked before. Both must outlive it.
NodeVectors::Copy CopyFrom(const VectorFile& file, const Kernels& kernels);

}  // namespace hmann
