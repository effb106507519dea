#include "index/collection/tail.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "index/base/status_macros.h"

namespace hmann {

std::uint64_t HeapBytes(const AttributeCells& cells) {
  constexpr std::uint64_t kAllocation = 16;
  static const std::size_t inside = std::string().capacity();
  if (cells.capacity() == 0) return 0;
  std::uint64_t bytes = cells.capacity() * sizeof(AttributeCell) + kAllocation;
  for (const AttributeCell& cell : cells) {
    const auto* text = std::get_if<std::string>(&cell.value);
    if (text != nullptr && text->capacity() > inside) bytes += text->capacity() + kAllocation;
  }
  return bytes;
}

Tail::Tail(std::size_t stride, std::uint64_t most) : stride_(stride) {
  constexpr std::uint64_t kChunks = 64;  // at least, where it may take so much: a guess
  const std::uint64_t rows = most / kChunks / (stride + TailChunk::kRowBytes);
  shift_ =
      static_cast<unsigned>(std::bit_width(std::clamp<std::uint64_t>(rows, 1, kMostOfChunk))) - 1;
}

std::uint64_t Tail::BytesWith(std::uint64_t more) const {
  const std::uint64_t gone = At(first_) >> shift_, size = std::uint64_t{1} << shift_;
  const std::uint64_t chunks =
      std::max<std::uint64_t>(chunks_.size(), (At(end_) + more + size - 1) >> shift_);
  return (chunks - std::min(gone, chunks)) * (size * (stride_ + TailChunk::kRowBytes)) +
         (words_.size() + more / 64) * sizeof(std::uint64_t) + heap_bytes_;
}

absl::Status Tail::Append(std::uint64_t label, std::span<const std::byte> row,
                          AttributeCells cells) {
  const std::uint64_t at = At(end_), place = InChunk(end_);
  if (at >> shift_ == chunks_.size()) {
    const std::size_t size = std::size_t{1} << shift_;
    auto chunk = std::make_shared<TailChunk>(size);
    HMANN_ASSIGN_OR_RETURN(chunk->rows, Buffer::Allocate(size * stride_));
    chunks_.push_back(std::move(chunk));
  }
  TailChunk& chunk = *chunks_[at >> shift_];
  heap_bytes_ += HeapBytes(cells);
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
  for (std::uint64_t at = first_; at < std::min(row, end_); ++at)
    heap_bytes_ -= HeapBytes(Cells(at));
  const std::uint64_t old_base = base();
  first_ = row;
  end_ = std::max(end_, row);
  const std::uint64_t chunks = (base() - old_base) >> shift_;
  chunks_.erase(chunks_.begin(),
                chunks_.begin() +
                    static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(chunks, chunks_.size())));
  std::fill_n(chunks_.begin(), std::min<std::uint64_t>(At(row) >> shift_, chunks_.size()), nullptr);
  const std::uint64_t words = std::min<std::uint64_t>((base() - old_base) / 64, words_.size());
  words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(words));
  const std::uint64_t whole = std::min<std::uint64_t>(At(row) / 64, words_.size());
  std::fill_n(words_.begin(), whole, 0);
  if (whole < words_.size()) words_[whole] &= ~std::uint64_t{0} << (row % 64);
  live_ = 0;
  for (const std::uint64_t word : words_) live_ += static_cast<std::uint64_t>(std::popcount(word));
}

}  // namespace hmann
