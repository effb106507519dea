#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/construct/graph/packed_lists.h"
#include "index/graph/layer_search.h"
#include "index/graph/types.h"

namespace hmann {

/// Layers under construction. Node i of the insertion order is row i, and layer j holds
/// the first nodes[j] nodes. So the nodes of the upper layers are inserted first, and the
/// position in the order determines the level. Phase 1 uses a random order with L0 at the
/// bottom, phase 2 the order of rank with L1 at the bottom.
///
/// A graph made of artifacts has one layer, whose lists stay packed: only List, SetLink
/// and PrefetchList read it.
class InsertionGraph {
 public:
  /// Gives memory for lists.
  using Allocate = std::function<absl::StatusOr<Buffer>(std::size_t)>;
  /// `rows` (nodes[0] stored vectors at row_stride) and `kernels` must outlive the graph.
  static absl::StatusOr<InsertionGraph> Make(std::vector<NodeId> nodes,
                                             std::vector<std::uint32_t> max_degree,
                                             const std::byte* rows, std::size_t row_stride,
                                             const Kernels& kernels,
                                             const Allocate& allocate = Buffer::Allocate);

  /// Makes one layer from finished lists: `links` holds max_degree links for each of
  /// `nodes` nodes.
  static InsertionGraph Over(Buffer links, NodeId nodes, std::uint32_t max_degree,
                             const Kernels& kernels);
  /// The same of lists by node that stay packed.
  static InsertionGraph Over(PackedLists lists, NodeId nodes, const Kernels& kernels);

  std::uint32_t layers() const { return static_cast<std::uint32_t>(nodes_.size()); }
  NodeId nodes(std::uint32_t layer) const { return nodes_[layer]; }
  std::uint32_t max_degree(std::uint32_t layer) const { return max_degree_[layer]; }
  std::uint32_t LevelOf(NodeId node) const;
  LayerView View(std::uint32_t layer) const;
  NodeId* Links(std::uint32_t layer, NodeId node) {
    return reinterpret_cast<NodeId*>(links_[layer].data()) +
           static_cast<std::size_t>(node) * max_degree_[layer];
  }
  /// The links of a node of the bottom layer, without unused places; valid as long as
  /// neither they nor `scratch` are changed.
  std::span<const NodeId> List(NodeId node, std::vector<NodeId>& scratch) const;
  /// Sets a link of the bottom layer: one that is there, or the next.
  void SetLink(NodeId node, std::uint32_t place, NodeId to);
  void PrefetchList(NodeId node) const {
    packed_.empty() ? PrefetchLines(View(0).Links(node), max_degree_[0] * sizeof(NodeId))
                    : packed_.Prefetch(node);
  }
  const Kernels& kernels() const { return *kernels_; }
  /// Calls Buffer::AdviseRandom for all lists.
  void AdviseRandom(bool random) const {
    for (const Buffer& links : links_) links.AdviseRandom(random);
    packed_.AdviseRandom(random);
  }
  /// Frees the layers above the bottom ("drop the layers 1..l of phase 1").
  void DropUpperLayers();

  /// Greedy descent through the layers above `layer`, from node 0.
  NodeId Descend(const std::byte* query, std::uint32_t layer, LayerScratch& scratch) const;

 private:
  std::vector<NodeId> nodes_;
  std::vector<std::uint32_t> max_degree_;
  std::vector<Buffer> links_;
  PackedLists packed_;  ///< or not empty, and then the only layer
  const std::byte* rows_ = nullptr;
  std::size_t row_stride_ = 0;
  const Kernels* kernels_ = nullptr;
};

/// Number of links in a list padded with kNoNode.
inline std::uint32_t CountLinks(const NodeId* links, std::uint32_t max_degree) {
  std::uint32_t count = 0;
  while (count < max_degree && links[count] != kNoNode) ++count;
  return count;
}

}  // namespace hmann
