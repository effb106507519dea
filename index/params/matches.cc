#include "hmann/matches.h"

#include "index/base/bits.h"

namespace hmann {

Matches::Matches(std::uint64_t n, std::uint64_t content_hash, std::vector<std::uint64_t> words)
    : n_(n), content_hash_(content_hash), words_(std::move(words)) {
  if (n % 64 != 0) words_.back() &= ~std::uint64_t{0} >> (64 - n % 64);
  for (const std::uint64_t word : words_) size_ += CountBits(word);
}

}  // namespace hmann
