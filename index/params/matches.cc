#include "hmann/matches.h"

#include <algorithm>

#include "index/base/bits.h"
#include "index/base/check.h"

namespace hmann {

const Matches::Piece& Matches::Ones() {
  static const Piece ones = std::make_shared<std::uint64_t[]>(kPieceWords, ~std::uint64_t{0});
  return ones;
}

Matches::Matches(std::uint64_t n, std::uint64_t content_hash) : n_(n), content_hash_(content_hash) {
  pieces_.resize((words() + kPieceWords - 1) / kPieceWords);
  for (std::uint64_t p = 0; p < pieces_.size(); ++p)
    pieces_[p] = std::make_shared<std::uint64_t[]>(WordsOf(p));
}

Matches::Matches(std::uint64_t n, std::uint64_t content_hash, std::span<const std::uint64_t> bits)
    : Matches(n, content_hash) {
  for (std::uint64_t p = 0; p < pieces_.size(); ++p)
    std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(p * kPieceWords), WordsOf(p),
                pieces_[p].get());
  if (n % 64 != 0)
    pieces_.back()[(words() - 1) % kPieceWords] &= ~std::uint64_t{0} >> (64 - n % 64);
  for (std::uint64_t p = 0; p < pieces_.size(); ++p) size_ += CountOf(p);
}

Matches Matches::All(std::uint64_t n, std::uint64_t content_hash) {
  Matches all(n, content_hash, std::vector<std::uint32_t>());
  for (std::uint64_t left = n / kPieceIds; left > 0; --left) all.pieces_.push_back(Ones());
  if (const std::uint64_t rest = n % kPieceIds; rest > 0)
    all.pieces_.push_back(Matches(rest, content_hash, {Ones().get(), (rest + 63) / 64}).pieces_[0]);
  all.size_ = n;
  return all;
}

Matches Matches::Without(std::span<const std::uint32_t> ids) const {
  Matches left = *this;
  if (pieces_.empty()) {
    std::vector<std::uint32_t> gone(ids.begin(), ids.end());
    std::sort(gone.begin(), gone.end());
    std::erase_if(left.ids_, [&gone](std::uint32_t id) {
      return std::binary_search(gone.begin(), gone.end(), id);
    });
    left.size_ = left.ids_.size();
    return left;
  }
  for (const std::uint32_t id : ids) {
    if (!left.Has(id)) continue;
    const std::uint64_t p = id / kPieceIds;
    if (left.pieces_[p] == pieces_[p]) {
      left.pieces_[p] = std::make_shared<std::uint64_t[]>(WordsOf(p));
      std::copy_n(pieces_[p].get(), WordsOf(p), left.pieces_[p].get());
    }
    left.pieces_[p][id % kPieceIds / 64] &= ~(std::uint64_t{1} << (id % 64));
    --left.size_;
  }
  return left;
}

Matches Matches::And(const Matches& other) const {
  HMANN_CHECK(n_ == other.n_ && content_hash_ == other.content_hash_);
  if (!pieces_.empty() && other.pieces_.empty()) return other.And(*this);
  Matches both = *this;
  if (pieces_.empty()) {
    std::erase_if(both.ids_, [&other](std::uint32_t id) { return !other.Has(id); });
    both.size_ = both.ids_.size();
    return both;
  }
  both.size_ = 0;
  for (std::uint64_t p = 0; p < pieces_.size(); ++p) {
    Piece& piece = both.pieces_[p];
    const Piece& with = other.pieces_[p];
    if (piece == Ones()) {
      piece = with;
    } else if (with != piece && with != Ones()) {
      piece = std::make_shared<std::uint64_t[]>(WordsOf(p));
      std::transform(pieces_[p].get(), pieces_[p].get() + WordsOf(p), with.get(), piece.get(),
                     [](std::uint64_t a, std::uint64_t b) { return a & b; });
    }
    both.size_ += both.CountOf(p);
  }
  return both;
}

std::uint64_t Matches::bytes() const {
  std::uint64_t bytes = ids_.size() * sizeof(ids_[0]) + pieces_.size() * sizeof(pieces_[0]);
  for (std::uint64_t p = 0; p < pieces_.size(); ++p)
    bytes += pieces_[p] == Ones() ? 0 : WordsOf(p) * sizeof(std::uint64_t);
  return bytes;
}

std::uint64_t Matches::CountOf(std::uint64_t piece) const {
  const std::uint64_t* const words = pieces_[piece].get();
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < WordsOf(piece); ++i) count += CountBits(words[i]);
  return count;
}

}  // namespace hmann
