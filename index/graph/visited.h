#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// The nodes that a search has met: an open-addressing hash set. Its size follows the
/// search, not the graph. So it stays in the L1/L2 cache, and a searcher on a billion
/// nodes holds a few dozen KiB. It is at most a quarter full, so hardly any lookup probes
/// further. Exact. Keeps its memory between searches.
class VisitedSet {
 public:
  VisitedSet() : slots_(kMinSlots, kNoNode) {}

  void Clear() {
    // One large query may have grown the table, which makes every later Clear expensive:
    // let it shrink.
    if (slots_.size() > kMinSlots && size_ * 32 < slots_.size()) slots_.resize(slots_.size() / 2);
    std::fill(slots_.begin(), slots_.end(), kNoNode);
    size_ = 0;
    if (excluded_ != kNoNode) Insert(excluded_);
  }

  /// From the next Clear on, `node` counts as met, so searches act as if it did not
  /// exist. kNoNode: none.
  void Exclude(NodeId node) { excluded_ = node; }
  NodeId excluded() const { return excluded_; }

  std::size_t size() const { return size_; }

  /// Returns whether `node` is new.
  bool Insert(NodeId node) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = Home(node) & mask;
    while (slots_[slot] != kNoNode) {
      if (slots_[slot] == node) return false;
      slot = (slot + 1) & mask;
    }
    slots_[slot] = node;
    if (++size_ * 4 > slots_.size()) Grow();
    return true;
  }

  /// Inserts a list of links, which ends at `most` or at the first link that is not below
  /// `n`. Writes the new ones to `fresh` (room for `most`), in order; returns how many.
  /// The branch predictor cannot guess whether a link is new, so nothing branches on it.
  /// That alone made the traversal of L0 in DRAM a tenth to a sixth faster (Zen 5).
  std::uint32_t InsertNew(const NodeId* links, std::uint32_t most, NodeId n, NodeId* fresh) {
    while ((size_ + most) * 4 > slots_.size()) Grow();
    const std::size_t mask = slots_.size() - 1;
    NodeId* const slots = slots_.data();
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < most && links[i] < n; ++i) {
      const NodeId node = links[i];
      std::size_t slot = Home(node) & mask;
      NodeId there = slots[slot];
      // Neither empty nor this node. It is a product because the compiler turns a logical
      // operator into two branches.
      while (std::uint64_t{there ^ kNoNode} * (there ^ node) != 0) [[unlikely]] {
        slot = (slot + 1) & mask;
        there = slots[slot];
      }
      fresh[count] = node;
      count += there == kNoNode ? 1 : 0;
      slots[slot] = node;
    }
    size_ += count;
    return count;
  }

  bool Contains(NodeId node) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = Home(node) & mask; slots_[slot] != kNoNode; slot = (slot + 1) & mask) {
      if (slots_[slot] == node) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kMinSlots = 256;

  static std::size_t Home(NodeId node) { return (node * std::uint64_t{0x9e3779b97f4a7c15u}) >> 32; }

  void Grow() {
    spare_.assign(slots_.size() * 2, kNoNode);
    spare_.swap(slots_);
    size_ = 0;
    for (NodeId node : spare_) {
      if (node != kNoNode) Insert(node);
    }
  }

  std::vector<NodeId> slots_;  ///< a power of two; kNoNode = empty
  std::vector<NodeId>
      spare_;  ///< table before the last growth, so that regrowing allocates nothing
  std::size_t size_ = 0;
  NodeId excluded_ = kNoNode;
};

}  // namespace hmann
