#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hmann/distance.h"
#include "index/construct/jobs/nearest_lists.h"

namespace hmann {

/// Compares the members of a leaf on one thread. Members that `nearest` holds are
/// compared with each other and with the others. The nearest found for a member wait in
/// its own buffer, so that lists are locked and merged seldom.
class LeafJoin {
 public:
  /// `row`: returns the stored vector of a member. All must outlive this.
  LeafJoin(std::function<const std::byte*(NodeId)> row, const Kernels& kernels,
           NearestLists& nearest)
      : row_(std::move(row)), kernels_(kernels), nearest_(nearest) {}

  /// `members` must ascend.
  void Run(std::span<const NodeId> members);

 private:
  using Entry = NearestLists::Entry;

  /// Compares members that have lists with members [from, to). Either all of the latter
  /// have lists, or none.
  void CompareStrips(std::size_t from, std::size_t to);
  /// Compares members [from, to), which have lists, with members [begin, end).
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
