#include "index/construct/join.h"

#include <algorithm>
#include <cstring>

namespace hmann {
namespace {

using Entry = NearestLists::Entry;

constexpr std::size_t kSide = 64;    ///< rows of a square of distances
constexpr std::uint32_t kHits = 64;  ///< that wait for a merge

/// One thread's leaf at work. What a member was found to be near waits in a buffer of its
/// own, so that lists are locked and merged seldom.
class LeafJoin {
 public:
  LeafJoin(const StoredVectors& vectors, const Kernels& kernels, NearestLists& nearest)
      : vectors_(vectors), kernels_(kernels), nearest_(nearest) {}

  void Run(std::span<const NodeId> members) {
    members_ = members;
    rows_.resize(members.size());
    bounds_.resize(members.size());
    counts_.assign(members.size(), 0);
    hits_.resize(members.size() * kHits);
    keys_.resize(members.size() * kSide);
    for (std::size_t i = 0; i < members.size(); ++i) {
      rows_[i] = vectors_.Row(members[i]);
      bounds_[i] = nearest_.Bound(members[i]);
    }
    for (std::size_t begin = 0; begin < members.size(); begin += kSide)
      Strip(begin, std::min(begin + kSide, members.size()));
    for (std::size_t i = 0; i < members.size(); ++i) Merge(i);
  }

 private:
  /// Compares members [begin, end) with each other and all before.
  void Strip(std::size_t begin, std::size_t end) {
    kernels_.block(rows_.data(), end, rows_.data() + begin, end - begin, kernels_.dim, keys_.data(),
                   kSide);
    for (std::size_t i = 0; i < end; ++i) {
      const DistanceKey* keys = keys_.data() + i * kSide;
      for (std::size_t j = std::max(begin, i + 1); j < end; ++j) {
        const DistanceKey key = keys[j - begin];
        if (key <= bounds_[i]) Add(i, key, j);
        if (key <= bounds_[j]) Add(j, key, i);
      }
    }
  }

  void Add(std::size_t i, DistanceKey key, std::size_t other) {
    hits_[i * kHits + counts_[i]++] = NearestLists::Pack(key, members_[other]);
    if (counts_[i] == kHits) Merge(i);
  }

  void Merge(std::size_t i) {
    Entry* hits = hits_.data() + i * kHits;
    std::sort(hits, hits + counts_[i]);
    bounds_[i] = nearest_.Merge(members_[i], {hits, counts_[i]}, merged_);
    counts_[i] = 0;
  }

  const StoredVectors& vectors_;
  const Kernels& kernels_;
  NearestLists& nearest_;
  std::span<const NodeId> members_;
  std::vector<const std::byte*> rows_;
  std::vector<DistanceKey> bounds_;  ///< [member]: key of its farthest
  std::vector<std::uint32_t> counts_;
  std::vector<Entry> hits_;  ///< [member][kHits]
  std::vector<DistanceKey> keys_;
  std::vector<Entry> merged_;
};

}  // namespace

absl::Status JoinLeaves(Partition partition, const StoredVectors& vectors, const Kernels& kernels,
                        const PartitionOptions& options, NearestLists& nearest, const Job& job) {
  std::vector<LeafJoin> joins(static_cast<std::size_t>(job.pool.threads()),
                              LeafJoin(vectors, kernels, nearest));
  job.pool.ParallelFor(partition.groups(), 1, [&](std::size_t begin, std::size_t end, int thread) {
    for (std::size_t g = begin; g < end && !job.Cancelled(); ++g) {
      const std::span<const NodeId> members = partition.Members(static_cast<std::uint32_t>(g));
      LeafJoin& join = joins[static_cast<std::size_t>(thread)];
      ForEachLeaf(members, vectors, kernels, options,
                  [&](std::span<const NodeId> leaf) { join.Run(leaf); });
      job.progress.Advance(members.size());
    }
  });
  return job.CheckCancelled();
}

}  // namespace hmann
