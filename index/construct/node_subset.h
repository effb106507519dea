#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/thread_pool.h"
#include "index/construct/vectors.h"
#include "index/graph/types.h"

namespace hmann {

/// Some of n nodes, which a job loads: collected, then numbered anew in their order, so
/// that what goes by number among them goes as among all.
class NodeSubset {
 public:
  explicit NodeSubset(NodeId n) : words_((std::size_t{n} + 63) / 64), ranks_(words_.size()) {}

  void Clear();
  /// From any thread; before Number.
  void Add(NodeId node) {
    const std::uint64_t bit = std::uint64_t{1} << node % 64;
    std::atomic_ref<std::uint64_t> word(words_[node / 64]);
    if ((word.load(std::memory_order_relaxed) & bit) == 0)
      word.fetch_or(bit, std::memory_order_relaxed);
  }
  /// Numbers what was added; returns how many there are.
  NodeId Number();

  /// After Number. Local is of a node that was added.
  NodeId size() const { return size_; }
  bool Has(NodeId node) const { return words_[node / 64] >> node % 64 & 1; }
  NodeId Local(NodeId node) const {
    const std::uint64_t below = (std::uint64_t{1} << node % 64) - 1;
    return ranks_[node / 64] + static_cast<NodeId>(std::popcount(words_[node / 64] & below));
  }
  /// The nodes, ascending.
  std::vector<NodeId> Nodes() const;

 private:
  std::vector<std::uint64_t> words_;
  std::vector<NodeId> ranks_;  ///< [word]: those before it
  NodeId size_ = 0;
};

/// Records of some nodes, ascending, one behind the other: `from` holds one of `bytes`
/// for every node. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<StoredVectors> GatherRecords(const std::byte* from, std::size_t bytes,
                                            std::span<const NodeId> nodes, ThreadPool& pool);

}  // namespace hmann
