#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hmann/distance.h"
#include "index/graph/types.h"

namespace hmann {

/// The best `width` candidates met so far, nearest first, each expanded or not: the
/// candidate queue and the result list of a best-first search in one sorted array. Ties
/// are broken by id, so that a search depends on nothing but the graph and the query.
///
/// An entry packs (key, id, expanded) into 64 bits; a whole beam is a few cache lines,
/// and an insertion is a binary search and one memmove. An id may be inserted once only:
/// the caller's visited set sees to that.
class Beam {
 public:
  /// Empties the beam; keeps its memory.
  void Reset(std::uint32_t width) {
    width_ = width;
    size_ = 0;
    next_ = 0;
    Reserve();
  }

  std::uint32_t size() const { return size_; }
  std::uint32_t width() const { return width_; }
  NodeId id(std::uint32_t i) const { return static_cast<NodeId>(entries_[i]) >> 1; }
  DistanceKey key(std::uint32_t i) const { return static_cast<DistanceKey>(entries_[i] >> 32); }
  bool expanded(std::uint32_t i) const { return (entries_[i] & 1) != 0; }

  /// Keys above this cannot enter.
  DistanceKey bound() const { return size_ < width_ ? ~DistanceKey{0} : key(size_ - 1); }

  /// Lets go of candidates of a larger key: for a caller that knows them to be of no use,
  /// so that there is less to move.
  void DropBeyond(DistanceKey limit) {
    while (size_ > 0 && key(size_ - 1) > limit) --size_;
  }

  /// Lets go of those that keep(id) is false for.
  template <typename Keep>
  void Filter(const Keep& keep) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (keep(id(i))) entries_[kept++] = entries_[i];
    }
    size_ = kept;
    next_ = 0;
    while (next_ < size_ && expanded(next_)) ++next_;
  }

  /// Returns whether the candidate entered.
  bool Insert(DistanceKey key, NodeId id) {
    const std::uint64_t entry = Entry(key, id);
    if (size_ == width_) {
      if (size_ == 0 || entry >= entries_[size_ - 1]) return false;
    } else {
      ++size_;
    }
    std::uint64_t* const begin = entries_.data();
    std::uint64_t* const place = LowerBound(begin, size_ - 1, entry);
    std::memmove(place + 1, place,
                 static_cast<std::size_t>(begin + size_ - 1 - place) * sizeof(entry));
    *place = entry;
    next_ = std::min(next_, static_cast<std::uint32_t>(place - begin));
    return true;
  }

  /// The same for many at once: their places are looked up side by side, and what lies
  /// behind them moves once. Best-first search of SIFT in DRAM is 5 to 8 % faster so
  /// (Zen 4).
  void InsertMany(const DistanceKey* keys, const NodeId* ids, std::uint32_t n) {
    for (; n > kAtOnce; n -= kAtOnce, keys += kAtOnce, ids += kAtOnce)
      InsertGroup(keys, ids, kAtOnce);
    if (n < 3) {
      for (std::uint32_t i = 0; i < n; ++i) Insert(keys[i], ids[i]);
    } else {
      InsertGroup(keys, ids, n);
    }
  }

  /// Insert for candidates that may have been inserted before (a result list that several
  /// searches feed); none may be expanded yet.
  bool InsertUnique(DistanceKey key, NodeId id) {
    const std::uint64_t entry = Entry(key, id);
    if (size_ > 0 && entry <= entries_[size_ - 1] &&
        *LowerBound(entries_.data(), size_, entry) == entry)
      return false;
    return Insert(key, id);
  }

  /// No candidate before this place is unexpanded.
  std::uint32_t next() const { return next_; }
  /// True while some candidate among the first `window` is not expanded.
  bool HasNext(std::uint32_t window) const { return next_ < std::min(size_, window); }
  /// The nearest candidate that is not expanded; HasNext must hold.
  NodeId PeekNext() const { return id(next_); }
  /// Marks it as expanded and returns it.
  NodeId PopNext() {
    const NodeId node = id(next_);
    entries_[next_] |= 1;
    do ++next_;
    while (next_ < size_ && expanded(next_));
    return node;
  }

  /// Gives an expanded candidate another key; it stays expanded. It must be here under
  /// `old_key`.
  void Rekey(DistanceKey old_key, NodeId id, DistanceKey key) {
    const std::uint64_t low = (static_cast<std::uint64_t>(id) << 1) | 1;
    const std::uint64_t old_entry = (static_cast<std::uint64_t>(old_key) << 32) | low,
                        entry = (static_cast<std::uint64_t>(key) << 32) | low;
    std::uint64_t* const begin = entries_.data();
    std::uint64_t* const from = LowerBound(begin, size_, old_entry);
    std::uint64_t* to = LowerBound(begin, size_, entry);
    if (to > from) {
      --to;
      std::memmove(from, from + 1, static_cast<std::size_t>(to - from) * sizeof(entry));
    } else {
      std::memmove(to + 1, to, static_cast<std::size_t>(from - to) * sizeof(entry));
    }
    *to = entry;
    next_ = std::min(next_, static_cast<std::uint32_t>(std::min(from, to) - begin));
    while (next_ < size_ && expanded(next_)) ++next_;
  }

  /// Makes every candidate unexpanded again, so that another layer can be searched from
  /// all of them; keeps the nearest `width`.
  void Reopen(std::uint32_t width) {
    width_ = width;
    size_ = std::min(size_, width);
    Reserve();
    for (std::uint32_t i = 0; i < size_; ++i) entries_[i] &= ~std::uint64_t{1};
    next_ = 0;
  }

 private:
  static constexpr std::uint32_t kAtOnce = 16;

  static std::uint64_t Entry(DistanceKey key, NodeId id) {
    return (static_cast<std::uint64_t>(key) << 32) | (static_cast<std::uint64_t>(id) << 1);
  }

  void Reserve() {
    if (entries_.size() < width_ + std::size_t{kAtOnce})
      entries_.resize(width_ + std::size_t{kAtOnce});
  }

  /// n <= kAtOnce.
  void InsertGroup(const DistanceKey* keys, const NodeId* ids, std::uint32_t n) {
    std::uint64_t fresh[kAtOnce], sorted[kAtOnce];
    std::uint32_t places[kAtOnce];
    std::uint64_t* const begin = entries_.data();
    for (std::uint32_t i = 0; i < n; ++i) fresh[i] = Entry(keys[i], ids[i]);
    for (std::uint32_t i = 0; i < n; ++i) {
      std::uint32_t rank = 0;
      for (std::uint32_t j = 0; j < n; ++j) rank += fresh[j] < fresh[i] ? 1 : 0;
      const auto place = static_cast<std::uint32_t>(LowerBound(begin, size_, fresh[i]) - begin);
      sorted[rank] = fresh[i];
      places[rank] = place;
      next_ = std::min(next_, place);
    }
    std::uint32_t end = size_;
    for (std::uint32_t i = n; i-- > 0; end = places[i]) {
      for (std::uint32_t at = end; at-- > places[i];) begin[at + i + 1] = begin[at];
      begin[places[i] + i] = sorted[i];
    }
    size_ = std::min(size_ + n, width_);
  }

  /// First of n sorted entries that is not below `entry`; branch-free, by a mask, since
  /// of `? half : 0` the compiler makes a branch.
  static std::uint64_t* LowerBound(std::uint64_t* first, std::size_t n, std::uint64_t entry) {
    while (n > 0) {
      const std::size_t half = (n + 1) / 2;
      first += half & (std::size_t{0} - static_cast<std::size_t>(first[half - 1] < entry));
      n -= half;
    }
    return first;
  }

  std::vector<std::uint64_t> entries_;  ///< room for kAtOnce more than the width
  std::uint32_t width_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t next_ = 0;  ///< no entry before it is unexpanded
};

}  // namespace hmann
