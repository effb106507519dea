#include "index/collection/tail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "index/base/status_macros.h"

namespace hmann {

std::uint64_t Tail::bytes() const {
  const std::size_t chunk = TailChunk::kRows * stride_ + sizeof(TailChunk);
  return chunks_.size() * chunk + words_.size() * sizeof(std::uint64_t);
}

std::uint64_t Tail::dead_bytes() const {
  const std::size_t row = stride_ + sizeof(TailChunk) / TailChunk::kRows;
  return (end_ - first_ - live_) * row;
}

absl::Status Tail::Append(std::uint64_t label, std::span<const std::byte> row,
                          AttributeCells cells) {
  const std::uint64_t at = At(end_);
  if (at / TailChunk::kRows == chunks_.size()) {
    auto chunk = std::make_shared<TailChunk>();
    HMANN_ASSIGN_OR_RETURN(chunk->rows, Buffer::Allocate(TailChunk::kRows * stride_));
    chunks_.push_back(std::move(chunk));
  }
  TailChunk& chunk = *chunks_[at / TailChunk::kRows];
  const std::uint64_t place = end_ % TailChunk::kRows;
  std::memcpy(chunk.rows.data() + place * stride_, row.data(), row.size());
  chunk.labels[place] = label;
  chunk.cells[place] = std::move(cells);
  if (at / 64 == words_.size()) words_.push_back(0);
  words_[at / 64] |= std::uint64_t{1} << (at % 64);
  ++end_;
  ++live_;
  return absl::OkStatus();
}

void Tail::DropBefore(std::uint64_t row) {
  if (row <= first_) return;
  const std::uint64_t old_base = base();
  first_ = row;
  end_ = std::max(end_, row);
  const std::uint64_t chunks = (base() - old_base) / TailChunk::kRows;
  chunks_.erase(chunks_.begin(),
                chunks_.begin() +
                    static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(chunks, chunks_.size())));
  const std::uint64_t words = std::min<std::uint64_t>((base() - old_base) / 64, words_.size());
  words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(words));
  const std::uint64_t whole = std::min<std::uint64_t>(At(row) / 64, words_.size());
  std::fill_n(words_.begin(), whole, 0);
  if (whole < words_.size()) words_[whole] &= ~std::uint64_t{0} << (row % 64);
  live_ = 0;
  for (const std::uint64_t word : words_) live_ += static_cast<std::uint64_t>(std::popcount(word));
}

}  // namespace hmann
