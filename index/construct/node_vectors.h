#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "index/base/thread_pool.h"
#include "index/construct/vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// Stored vectors by node, which lie elsewhere in the order of rows, and are copied when
/// they are wanted. What it refers to must outlive it.
struct NodeVectors {
  /// Stored vector `row`, to `place`. From several threads; fast where rows ascend.
  using Copy = std::function<void(std::uint32_t row, std::byte* place)>;

  std::size_t stride = 0;
  std::span<const std::uint32_t> row_of;  ///< [node]
  Copy copy;

  NodeId count() const { return static_cast<NodeId>(row_of.size()); }
  /// That of one node, to `place`.
  void Take(NodeId node, std::byte* place) const { copy(row_of[node], place); }
  /// Those of some nodes, in this order, and where they lie read forwards. Takes
  /// kBytesOfGather more of each meanwhile. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<StoredVectors> Gather(std::span<const NodeId> nodes, ThreadPool& pool) const;
  static constexpr std::uint64_t kBytesOfGather = 8;
};

}  // namespace hmann
