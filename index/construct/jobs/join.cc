#include "index/construct/jobs/join.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hmann {
namespace {

constexpr std::size_t kSide = 64;    ///< rows of a square of distances
constexpr std::uint32_t kHits = 64;  ///< entries that wait for a merge

}  // namespace

void LeafJoin::Run(std::span<const NodeId> members) {
  members_ = members;
  rows_.resize(members.size());
  bounds_.assign(members.size() + kSide, 0);  // NearOnes reads whole squares
  counts_.assign(members.size(), 0);
  hits_.resize(members.size() * kHits);
  keys_.resize(members.size() * kSide);
  first_ = last_ = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    rows_[i] = row_(members[i]);
    PrefetchLines(rows_[i], PrefetchBytes(kernels_));
    if (!nearest_.Holds(members[i])) continue;
    nearest_.Prefetch(members[i]);
    if (first_ == last_) first_ = i;
    last_ = i + 1;
  }
  for (std::size_t i = first_; i < last_; ++i) bounds_[i] = nearest_.Bound(members[i]);
  CompareStrips(0, first_);
  CompareStrips(first_, last_);
  CompareStrips(last_, members.size());
  for (std::size_t i = first_; i < last_; ++i) Merge(i);
}

void LeafJoin::CompareStrips(std::size_t from, std::size_t to) {
  if (first_ == last_) return;
  for (std::size_t begin = from; begin < to; begin += kSide) {
    const std::size_t end = std::min(begin + kSide, to);
    Compare(first_, IsHeld(begin) ? end : last_, begin, end);
  }
}

void LeafJoin::Compare(std::size_t from, std::size_t to, std::size_t begin, std::size_t end) {
  kernels_.block(rows_.data() + from, to - from, rows_.data() + begin, end - begin, kernels_.dim,
                 keys_.data(), kSide);
  for (std::size_t i = from; i < to; ++i) {
    const DistanceKey* keys = keys_.data() + (i - from) * kSide;
    for (std::uint64_t near = NearOnes(keys, i, begin, end); near != 0; near &= near - 1) {
      const auto j = static_cast<std::size_t>(std::countr_zero(near));
      if (keys[j] <= bounds_[i]) Add(i, keys[j], begin + j);
      if (IsHeld(begin + j) && keys[j] <= bounds_[begin + j]) Add(begin + j, keys[j], i);
    }
  }
}

/// Bit j is set if member begin + j is near enough for its own list or that of i. Member
/// i was not compared with it before. Few are near enough, so the loop is written for
/// vector instructions.
std::uint64_t LeafJoin::NearOnes(const DistanceKey* keys, std::size_t i, std::size_t begin,
                                 std::size_t end) const {
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
    // The product gathers the lowest bit of each byte in the highest byte.
    near |= (bytes * 0x0102040810204080u >> 56) << (8 * word);
  }
  const std::size_t first = i >= begin && i < end ? i + 1 - begin : 0, last = end - begin;
  if (first == kSide) return 0;
  return near & ~std::uint64_t{0} << first & ~std::uint64_t{0} >> (kSide - last);
}

void LeafJoin::Add(std::size_t i, DistanceKey key, std::size_t other) {
  hits_[i * kHits + counts_[i]++] = NearestLists::Pack(key, members_[other]);
  if (counts_[i] == kHits) Merge(i);
}

void LeafJoin::Merge(std::size_t i) {
  Entry* hits = hits_.data() + i * kHits;
  std::sort(hits, hits + counts_[i]);
  bounds_[i] = nearest_.Merge(members_[i], {hits, counts_[i]}, merged_);
  counts_[i] = 0;
}

}  // namespace hmann
