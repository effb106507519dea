#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "index/base/bits.h"
#include "index/graph/types.h"

namespace hmann {

/// The nodes that a job loads, out of n. It collects them, then renumbers them in their
/// order. So the order by number among them is the same as among all nodes.
class NodeSubset {
 public:
  explicit NodeSubset(NodeId n) : words_((std::size_t{n} + 63) / 64), ranks_(words_.size()) {}

  /// An upper bound of the number of nodes.
  NodeId most() const { return static_cast<NodeId>(words_.size() * 64); }
  void Clear();
  /// Thread-safe. Call before Number.
  void Add(NodeId node) {
    const std::uint64_t bit = std::uint64_t{1} << node % 64;
    std::atomic_ref<std::uint64_t> word(words_[node / 64]);
    if ((word.load(std::memory_order_relaxed) & bit) == 0)
      word.fetch_or(bit, std::memory_order_relaxed);
  }
  /// Adds nodes [0, count). Call before Number.
  void AddFirst(NodeId count) {
    for (NodeId node = 0; node < count; ++node) Add(node);
  }
  /// Numbers the added nodes; returns how many there are.
  NodeId Number();

  /// Call these after Number. Local requires a node that was added.
  NodeId size() const { return size_; }
  bool Has(NodeId node) const { return words_[node / 64] >> node % 64 & 1; }
  NodeId Local(NodeId node) const {
    if (first_ones_) return node;
    const std::uint64_t below = (std::uint64_t{1} << node % 64) - 1;
    return ranks_[node / 64] + CountBits(words_[node / 64] & below);
  }
  /// The nodes, ascending.
  std::vector<NodeId> Nodes() const;

 private:
  std::vector<std::uint64_t> words_;
  std::vector<NodeId> ranks_;  ///< [word]: nodes before it
  NodeId size_ = 0;
  bool first_ones_ = false;  ///< the subset is nodes [0, size_)
};

}  // namespace hmann
