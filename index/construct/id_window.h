#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/base/thread_pool.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/node_vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// Vectors and links of consecutive ids, copied from storage in node order. An index is
/// written by id, but files should be read forwards.
class IdWindow {
 public:
  /// Vectors and links by node (links as node numbers), and the mapping between nodes and
  /// ids. Must outlive the window.
  struct Source {
    NodeId n = 0;
    const NodeVectors* vectors = nullptr;
    InsertionGraph* graph = nullptr;
    const std::vector<NodeId>* node_of_id = nullptr;
    const std::vector<NodeId>* id_of_node = nullptr;
    std::size_t beside = 0;  ///< bytes that others keep per id in the window
  };

  /// Makes a window of as many ids as fit into `room` bytes, at least some thousands.
  /// Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<IdWindow> Make(const Source& source, std::uint64_t room, ThreadPool& pool);

  NodeId size() const { return size_; }
  /// Loads ids from `first` on.
  void Load(NodeId first);
  /// Loads from `id` on if `id` is not in the window.
  void Need(NodeId id) {
    if (id < first_ || id >= last_) Load(id);
  }
  /// `id` must be in the window. Valid until the next Load.
  const std::byte* Row(NodeId id) const {
    return rows_.data() + std::size_t{id - first_} * source_.vectors->stride;
  }
  std::span<const NodeId> Links(NodeId id) const {
    const NodeId* list =
        reinterpret_cast<const NodeId*>(links_.data()) + std::size_t{id - first_} * most_;
    return {list, CountLinks(list, most_)};
  }

 private:
  Source source_;
  ThreadPool* pool_ = nullptr;
  NodeId size_ = 0, first_ = 0, last_ = 0;
  std::uint32_t most_ = 0;
  Buffer rows_, links_;
};

}  // namespace hmann
