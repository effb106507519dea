#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// Some of n nodes, which a job loads: collected, then numbered anew in their order, so
/// that what goes by number among them goes as among all.
class NodeSubset {
 public:
  explicit NodeSubset(NodeId n) : words_((std::size_t{n} + 63) / 64), ranks_(words_.size()) {}

  /// At least as many as there are.
  NodeId most() const { return static_cast<NodeId>(words_.size() * 64); }
  void Clear();
  /// From any thread; before Number.
  void Add(NodeId node) {
    const std::uint64_t bit = std::uint64_t{1} << node % 64;
    std::atomic_ref<std::uint64_t> word(words_[node / 64]);
    if ((word.load(std::memory_order_relaxed) & bit) == 0)
      word.fetch_or(bit, std::memory_order_relaxed);
  }
  /// Nodes [0, count); before Number.
  void AddFirst(NodeId count) {
    for (NodeId node = 0; node < count; ++node) Add(node);
  }
  /// Numbers what was added; returns how many there are.
  NodeId Number();

  /// After Number. Local is of a node that was added.
  NodeId size() const { return size_; }
  bool Has(NodeId node) const { return words_[node / 64] >> node % 64 & 1; }
  NodeId Local(NodeId node) const {
    if (first_ones_) return node;
    const std::uint64_t below = (std::uint64_t{1} << node % 64) - 1;
    return ranks_[node / 64] + static_cast<NodeId>(std::popcount(words_[node / 64] & below));
  }
  /// The nodes, ascending.
  std::vector<NodeId> Nodes() const;

 private:
  std::vector<std::uint64_t> words_;
  std::vector<NodeId> ranks_;  ///< [word]: those before it
  NodeId size_ = 0;
  bool first_ones_ = false;  ///< they are nodes [0, size_)
};

}  // namespace hmann
