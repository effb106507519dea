#include "index/construct/join.h"

#include <algorithm>
#include <bit>
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
    bounds_.resize(members.size() + kSide);  // NearOnes reads whole squares
    counts_.assign(members.size(), 0);
    hits_.resize(members.size() * kHits);
    keys_.resize(members.size() * kSide);
    for (std::size_t i = 0; i < members.size(); ++i) {
      rows_[i] = vectors_.Row(members[i]);
      nearest_.Prefetch(members[i]);
      PrefetchLines(rows_[i], PrefetchBytes(kernels_));
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
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
      for (std::uint64_t near = NearOnes(i, begin, end); near != 0; near &= near - 1) {
        const auto j = static_cast<std::size_t>(std::countr_zero(near));
        if (keys[j] <= bounds_[i]) Add(i, keys[j], begin + j);
        if (keys[j] <= bounds_[begin + j]) Add(begin + j, keys[j], i);
      }
    }
  }

  /// Bit j: member begin + j, which is after i, is near enough for its own list or that
  /// of i. Few are, so that this is written for vector instructions.
  std::uint64_t NearOnes(std::size_t i, std::size_t begin, std::size_t end) const {
    const DistanceKey* keys = keys_.data() + i * kSide;
    const DistanceKey* bounds = bounds_.data() + begin;
    const DistanceKey bound = bounds_[i];
    std::uint8_t flags[kSide];
    for (std::size_t j = 0; j < kSide; ++j) {
      flags[j] =
          static_cast<std::uint8_t>((keys[j] <= bound ? 1 : 0) | (keys[j] <= bounds[j] ? 1 : 0));
    }
    std::uint64_t near = 0;
    for (std::size_t word = 0; word < kSide / 8; ++word) {
      std::uint64_t bytes;
      std::memcpy(&bytes, flags + 8 * word, 8);
      // The product gathers the lowest bit of each byte in the highest.
      near |= (bytes * 0x0102040810204080u >> 56) << (8 * word);
    }
    const std::size_t first = i < begin ? 0 : i + 1 - begin, last = end - begin;
    if (first == kSide) return 0;
    return near & ~std::uint64_t{0} << first & ~std::uint64_t{0} >> (kSide - last);
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
                        NearestLists& nearest, const Job& job) {
  std::vector<LeafJoin> joins(static_cast<std::size_t>(job.pool.threads()),
                              LeafJoin(vectors, kernels, nearest));
  job.pool.ParallelFor(partition.groups(), 1, [&](std::size_t begin, std::size_t end, int thread) {
    for (std::size_t g = begin; g < end && !job.Cancelled(); ++g) {
      const std::span<const NodeId> members = partition.Members(static_cast<std::uint32_t>(g));
      LeafJoin& join = joins[static_cast<std::size_t>(thread)];
      ForEachLeaf(members, vectors, kernels, partition.options(),
                  [&](std::span<const NodeId> leaf) { join.Run(leaf); });
      job.progress.Advance(members.size());
    }
  });
  return job.CheckCancelled();
}

}  // namespace hmann
