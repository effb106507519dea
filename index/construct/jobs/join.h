#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hmann/distance.h"
#include "index/construct/jobs/nearest_lists.h"

namespace hmann {

/// Compares the members of a leaf, as one thread does it: those that `nearest` holds with
/// each other and with the others. What a member was found to be near waits in a buffer
/// of its own, so that lists are locked and merged seldom.
class LeafJoin {
 public:
  /// `row`: stored vector of a member. All must outlive it.
  LeafJoin(std::function<const std::byte*(NodeId)> row, const Kernels& kernels,
           NearestLists& nearest)
      : row_(std::move(row)), kernels_(kernels), nearest_(nearest) {}

  /// `members` ascend.
  void Run(std::span<const NodeId> members);

 private:
  using Entry = NearestLists::Entry;

  /// Compares those that have lists with members [from, to), of which all have some, or
  /// none.
  void CompareStrips(std::size_t from, std::size_t to);
  /// Members [from, to), which have lists, with [begin, end).
  void Compare(std::size_t from, std::size_t to, std::size_t begin, std::size_t end);
  std::uint64_t NearOnes(const DistanceKey* keys, std::size_t i, std::size_t begin,
                         std::size_t end) const;
  void Add(std::size_t i, DistanceKey key, std::size_t other);
  void Merge(std::size_t i);
  bool IsHeld(std::size_t i) const { return i >= first_ && i < last_; }

  std::function<const std::byte*(NodeId)> row_;
  const Kernels& kernels_;
  NearestLists& nearest_;
  std::span<const NodeId> members_;
  std::size_t first_ = 0, last_ = 0;  ///< members that have lists
  std::vector<const std::byte*> rows_;
  std::vector<DistanceKey> bounds_;  ///< [member]: key of its farthest
  std::vector<std::uint32_t> counts_;
  std::vector<Entry> hits_;  ///< [member][kHits]
  std::vector<DistanceKey> keys_;
  std::vector<Entry> merged_;
};

}  // namespace hmann
