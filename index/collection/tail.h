#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "index/base/buffer.h"
#include "index/collection/segment.h"
#include "index/graph/types.h"

namespace hmann {

/// Rows of the delta in the order in which they came. A chunk never moves, and rows that
/// a moment knows never change but for their links, so that moments share chunks while
/// others are appended.
struct TailChunk {
  static constexpr std::uint32_t kLinks = 32;
  /// What a row takes without its vector and HeapBytes.
  static constexpr std::uint64_t kRowBytes =
      sizeof(std::uint64_t) + sizeof(AttributeCells) + kLinks * sizeof(NodeId);

  explicit TailChunk(std::size_t size) : labels(size), cells(size), links(size * kLinks) {
    for (std::atomic<NodeId>& link : links) link.store(kNoNode, std::memory_order_relaxed);
  }

  Buffer rows;  ///< stored vectors
  std::vector<std::uint64_t> labels;
  std::vector<AttributeCells> cells;
  std::vector<std::atomic<NodeId>> links;  ///< DeltaGraph
};

/// Bytes that the cells of a row point to, and those of their allocations, about.
std::uint64_t HeapBytes(const AttributeCells& cells);

/// The delta's rows [first, end), which no sealed index has yet, and which of them are
/// alive.
class Tail {
 public:
  /// `stride`: bytes from one row to the next in memory. `most`: bytes that it should
  /// take; its chunks are much smaller.
  explicit Tail(std::size_t stride = 0, std::uint64_t most = ~std::uint64_t{0});

  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t live() const { return live_; }
  bool Has(std::uint64_t row) const {
    return row >= first_ && row < end_ && (words_[At(row) / 64] >> (row % 64) & 1) != 0;
  }
  const std::byte* Row(std::uint64_t row) const {
    return ChunkOf(row).rows.data() + InChunk(row) * stride_;
  }
  std::uint64_t Label(std::uint64_t row) const { return ChunkOf(row).labels[InChunk(row)]; }
  const AttributeCells& Cells(std::uint64_t row) const { return ChunkOf(row).cells[InChunk(row)]; }
  std::atomic<NodeId>* Links(std::uint64_t row) const {
    return chunks_[At(row) >> shift_]->links.data() + InChunk(row) * TailChunk::kLinks;
  }
  /// Calls visit(row) for the live rows in order.
  template <typename Visit>
  void ForLive(const Visit& visit) const {
    ForSet(words_, first_, end_, visit);
  }
  /// Calls visit(row) for the rows of [begin, end) whose bits are set in `words`, which
  /// has a bit for each row from base() on.
  template <typename Visit>
  void ForSet(std::span<const std::uint64_t> words, std::uint64_t begin, std::uint64_t end,
              const Visit& visit) const {
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t last = std::min(end, (at / 64 + 1) * 64);
      std::uint64_t word = words[At(at) / 64] >> (at % 64);
      if (last - at < 64) word &= (std::uint64_t{1} << (last - at)) - 1;
      for (; word != 0; word &= word - 1)
        visit(at + static_cast<std::uint64_t>(std::countr_zero(word)));
      at = last;
    }
  }
  std::uint64_t base() const { return first_ / kMostOfChunk * kMostOfChunk; }
  std::span<const std::uint64_t> words() const { return words_; }
  std::uint64_t bytes() const { return BytesWith(0); }
  /// bytes() after `more` rows without cells.
  std::uint64_t BytesWith(std::uint64_t more) const;
  /// Of bytes(), about: of rows that are not alive.
  std::uint64_t dead_bytes() const {
    return first_ == end_ ? 0 : bytes() / (end_ - first_) * (end_ - first_ - live_);
  }

  /// Appends a row. Only the last moment's tail may grow. Errors: RESOURCE_EXHAUSTED.
  absl::Status Append(std::uint64_t label, std::span<const std::byte> row, AttributeCells cells);
  void Kill(std::uint64_t row) {
    std::uint64_t& word = words_[At(row) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    live_ -= (word & bit) != 0 ? 1 : 0;
    word &= ~bit;
  }
  /// Forgets the rows below `row`.
  void DropBefore(std::uint64_t row);

 private:
  static constexpr std::uint64_t kMostOfChunk = 1024;  // rows: a guess

  std::uint64_t At(std::uint64_t row) const { return row - base(); }
  std::uint64_t InChunk(std::uint64_t row) const {
    return row & ((std::uint64_t{1} << shift_) - 1);
  }
  const TailChunk& ChunkOf(std::uint64_t row) const { return *chunks_[At(row) >> shift_]; }

  std::size_t stride_;
  unsigned shift_ = 0;  ///< 2^shift_ rows in a chunk
  std::uint64_t first_ = 0, end_ = 0, live_ = 0;
  std::uint64_t heap_bytes_ = 0;  ///< of the cells
  /// From the one of base() on; nullptr: all its rows are below `first_`.
  std::vector<std::shared_ptr<TailChunk>> chunks_;
  std::vector<std::uint64_t> words_;  ///< live rows, a bit each, from base()
};

}  // namespace hmann
