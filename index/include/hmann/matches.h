#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hmann {

/// The vectors of an index that may be answers, because a user's predicate holds for
/// them: a bit per vector or, for few of them, their internal ids. Index::Matching or
/// Index::Filtered creates it, once for all queries that share the predicate. A search of
/// another index rejects it. Immutable while searches use it, and then thread-safe.
///
/// Bits are in pieces of 64 KiB that copies share, so a copy takes little time.
class Matches {
 public:
  /// None of the vectors, for the index with `n` vectors and this
  /// IndexInfo::content_hash.
  Matches(std::uint64_t n, std::uint64_t content_hash);

  /// With these `bits`: (n + 63) / 64 words, of which the lowest bit comes first. Bits
  /// from n on are ignored.
  Matches(std::uint64_t n, std::uint64_t content_hash, std::span<const std::uint64_t> bits);

  /// With these ids, ascending and below n.
  Matches(std::uint64_t n, std::uint64_t content_hash, std::vector<std::uint32_t> ids)
      : n_(n), content_hash_(content_hash), size_(ids.size()), ids_(std::move(ids)) {}

  /// All n vectors. Takes no memory for bits.
  static Matches All(std::uint64_t n, std::uint64_t content_hash);

  /// For a Matches that was made with none, and before it is copied.
  void Add(std::uint32_t id) {
    std::uint64_t& word = pieces_[id / kPieceIds][id % kPieceIds / 64];
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    size_ += (word & bit) == 0 ? 1 : 0;
    word |= bit;
  }
  /// These without `ids`, which are in any order and below n. Only the pieces of `ids`
  /// are copied.
  Matches Without(std::span<const std::uint32_t> ids) const;
  /// Those that `other`, of the same index, has too.
  Matches And(const Matches& other) const;

  bool Has(std::uint32_t id) const {
    if (pieces_.empty()) return std::binary_search(ids_.begin(), ids_.end(), id);
    return (WordAt(id / 64) >> (id % 64) & 1) != 0;
  }
  /// The first match at or after `id`; n if there is none.
  std::uint64_t Next(std::uint64_t id) const {
    if (id >= n_) return n_;
    if (pieces_.empty()) {
      const auto next = std::lower_bound(ids_.begin(), ids_.end(), id);
      return next == ids_.end() ? n_ : *next;
    }
    std::uint64_t at = id / 64, word = WordAt(at) & ~std::uint64_t{0} << (id % 64);
    while (word == 0) {
      if (++at == words()) return n_;
      word = WordAt(at);
    }
    return at * 64 + static_cast<std::uint64_t>(std::countr_zero(word));
  }

  /// Sets the first of `ids` to the matches at or after `id`, in ascending order. Returns
  /// how many; fewer than ids.size(): there are no more.
  std::uint32_t Next(std::uint64_t id, std::span<std::uint32_t> ids) const {
    std::uint32_t found = 0;
    if (pieces_.empty()) {
      auto next = std::lower_bound(ids_.begin(), ids_.end(), id);
      for (; next != ids_.end() && found < ids.size(); ++next) ids[found++] = *next;
      return found;
    }
    std::uint64_t mask = ~std::uint64_t{0} << (id % 64);
    for (std::uint64_t at = id / 64; at < words() && found < ids.size(); ++at) {
      std::uint64_t word = WordAt(at) & mask;
      mask = ~std::uint64_t{0};
      for (; word != 0 && found < ids.size(); word &= word - 1)
        ids[found++] = static_cast<std::uint32_t>(at * 64) +
                       static_cast<std::uint32_t>(std::countr_zero(word));
    }
    return found;
  }

  std::uint64_t n() const { return n_; }  ///< number of vectors in the index
  std::uint64_t content_hash() const { return content_hash_; }
  std::uint64_t size() const { return size_; }  ///< number of matches
  /// Of memory. Pieces that copies share are part of each.
  std::uint64_t bytes() const;

 private:
  static constexpr std::uint64_t kPieceWords = 8192, kPieceIds = kPieceWords * 64;
  using Piece = std::shared_ptr<std::uint64_t[]>;

  std::uint64_t words() const { return (n_ + 63) / 64; }
  std::uint64_t WordAt(std::uint64_t at) const {
    return pieces_[at / kPieceWords][at % kPieceWords];
  }
  /// Of all pieces but the last, kPieceWords.
  std::uint64_t WordsOf(std::uint64_t piece) const {
    return std::min(words() - piece * kPieceWords, kPieceWords);
  }
  std::uint64_t CountOf(std::uint64_t piece) const;
  /// What all full pieces share in which every vector matches.
  static const Piece& Ones();

  std::uint64_t n_, content_hash_, size_ = 0;
  std::vector<Piece> pieces_;  ///< a bit per vector, or else
  std::vector<std::uint32_t> ids_;
};

}  // namespace hmann
