#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "index/graph/types.h"

namespace hmann {

/// The best `width` candidates met so far, nearest first, each expanded or not. One
/// sorted array serves as both the candidate queue and the result list of a graph search.
/// Ties are broken by id, so that a search depends only on the graph and the query.
///
/// An entry packs (key, id, expanded) into 64 bits. A whole beam is a few cache lines,
/// and an insertion is a binary search and one memmove. An id may be inserted only once;
/// the caller's visited set ensures that.
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

  /// Candidates with a larger key cannot enter.
  DistanceKey bound() const { return size_ < width_ ? ~DistanceKey{0} : key(size_ - 1); }

  /// The number of candidates with this key or a smaller one.
  std::uint32_t Rank(DistanceKey key) const {
    const std::uint64_t last = std::uint64_t{key} << 32 | ~std::uint32_t{0};
    const auto end = entries_.begin() + size_;
    return static_cast<std::uint32_t>(std::upper_bound(entries_.begin(), end, last) -
                                      entries_.begin());
  }

  /// Drops candidates with a larger key, for a caller that knows them to be useless, so
  /// that there is less to move.
  void DropBeyond(DistanceKey limit) {
    while (size_ > 0 && key(size_ - 1) > limit) --size_;
  }

  /// Drops the candidates for which keep(id) is false.
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

  /// The same for many at once: their places are looked up side by side, and the entries
  /// behind them move once. This makes graph search of SIFT in DRAM 5 to 8 % faster (Zen
  /// 4).
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

  /// Marks as expanded all candidates but the `part`th, counted from 0, of each `parts`.
  void Deal(std::uint32_t part, std::uint32_t parts) {
    for (std::uint32_t i = 0; i < size_; ++i) entries_[i] |= i % parts == part ? 0 : 1;
    while (next_ < size_ && expanded(next_)) ++next_;
  }

  /// No candidate before this position is unexpanded.
  std::uint32_t next() const { return next_; }
  /// True while some candidate among the first `window` is not expanded.
  bool HasNext(std::uint32_t window) const { return next_ < std::min(size_, window); }
  /// The nearest candidate that is not expanded; HasNext must hold.
  NodeId PeekNext() const { return id(next_); }
  /// Marks the nearest unexpanded candidate as expanded and returns it.
  NodeId PopNext() {
    const NodeId node = id(next_);
    entries_[next_] |= 1;
    do ++next_;
    while (next_ < size_ && expanded(next_));
    return node;
  }

  /// Changes the key of an expanded candidate, which stays expanded. It must be in the
  /// beam under `old_key`.
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

  /// Requires n <= kAtOnce.
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

  /// First of n sorted entries that is not below `entry`. Branch-free, by a mask, because
  /// the compiler turns `? half : 0` into a branch.
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
