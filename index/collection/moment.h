#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/collection.h"
#include "index/base/buffer.h"
#include "index/collection/segment.h"

namespace hmann {

/// Rows of the delta in the order in which they came. A chunk never moves, and rows that
/// a moment knows never change, so that moments share chunks while others are appended.
struct TailChunk {
  static constexpr std::uint64_t kRows = 1024;

  Buffer rows;  ///< kRows stored vectors
  std::array<std::uint64_t, kRows> labels{};
  std::array<AttributeCells, kRows> cells{};
};

/// The rows of the delta that are in no graph yet: numbers [first, end).
class Tail {
 public:
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t live() const { return live_; }
  bool Has(std::uint64_t row) const {
    return row >= first_ && row < end_ && (words_[At(row) / 64] >> (row % 64) & 1) != 0;
  }
  const std::byte* Row(std::uint64_t row, std::size_t stride) const {
    return ChunkOf(row).rows.data() + row % TailChunk::kRows * stride;
  }
  std::uint64_t Label(std::uint64_t row) const {
    return ChunkOf(row).labels[row % TailChunk::kRows];
  }
  const AttributeCells& Cells(std::uint64_t row) const {
    return ChunkOf(row).cells[row % TailChunk::kRows];
  }
  /// Calls visit(row) for the live rows in order.
  template <typename Visit>
  void ForLive(const Visit& visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
        visit(base() + i * 64 + static_cast<std::uint64_t>(std::countr_zero(word)));
    }
  }
  std::uint64_t bytes(std::size_t stride) const;

  /// Appends a row. Only the last moment's tail may grow. Errors: RESOURCE_EXHAUSTED.
  absl::Status Append(std::uint64_t label, std::span<const std::byte> row, std::size_t stride,
                      AttributeCells cells);
  void Kill(std::uint64_t row) {
    std::uint64_t& word = words_[At(row) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    live_ -= (word & bit) != 0 ? 1 : 0;
    word &= ~bit;
  }
  /// Forgets the rows below `row`.
  void DropBefore(std::uint64_t row);

 private:
  std::uint64_t base() const { return first_ / TailChunk::kRows * TailChunk::kRows; }
  std::uint64_t At(std::uint64_t row) const { return row - base(); }
  const TailChunk& ChunkOf(std::uint64_t row) const { return *chunks_[At(row) / TailChunk::kRows]; }

  std::uint64_t first_ = 0, end_ = 0, live_ = 0;
  std::vector<std::shared_ptr<TailChunk>> chunks_;  ///< from the one of `first_`
  std::vector<std::uint64_t> words_;                ///< live rows, a bit each, from base()
};

/// What does not change while a collection is open.
struct CollectionShape {
  std::string folder, id;
  Kernels kernels;
  /// Bytes of a vector as a user gives it, and from one row in memory to the next.
  std::size_t vector_bytes = 0, stride = 0;
};

class Moment {
 public:
  /// More rows than this cannot be in one index.
  static constexpr std::uint64_t kMostLive = (std::uint64_t{1} << 31) - 1;

  /// A segment and its rows that are alive.
  struct Part {
    std::shared_ptr<const Segment> segment;  ///< nullptr: none
    std::shared_ptr<const Matches> live;     ///< nullptr: all
    /// Rows that die in a moment that is not visible yet. Settle takes them out of
    /// `live`.
    std::vector<std::uint32_t> killed;
    std::uint64_t rows() const {
      return segment == nullptr ? 0 : live == nullptr ? segment->n() : live->size();
    }
    bool Has(std::uint32_t id) const { return live == nullptr || live->Has(id); }
    void Settle();
  };

  std::shared_ptr<const CollectionShape> shape;
  std::shared_ptr<const std::vector<AttributeField>> fields;
  std::uint64_t sequence = 0;
  Part sealed;
  std::vector<Part> graphs;  ///< over the delta, in order of its rows
  Tail tail;

  void Settle();  ///< all parts
  std::uint64_t delta_rows() const;
  std::uint64_t live() const { return sealed.rows() + delta_rows(); }
  std::uint64_t delta_bytes() const;
  /// Errors: RESOURCE_EXHAUSTED: `more` rows are too many.
  absl::Status CheckLive(std::uint64_t more) const;
  /// The graph over this row of the delta; nullptr: it is in the tail or gone.
  const Part* GraphOf(std::uint64_t row) const;
  Part* GraphOf(std::uint64_t row) {
    return const_cast<Part*>(static_cast<const Moment*>(this)->GraphOf(row));
  }
};

class PreparedSearch {
 public:
  struct Part {
    std::shared_ptr<const Segment> segment;
    std::shared_ptr<const Matches> matches;  ///< that `params` refers to
    ResolvedParams params;
  };
  std::shared_ptr<const Moment> moment;
  std::uint32_t k = 0;
  std::optional<float> max_distance;
  std::optional<std::chrono::nanoseconds> budget;
  std::optional<Part> sealed;
  std::vector<Part> graphs;
  std::optional<std::vector<std::uint64_t>> tail;  ///< rows that match; absent: all
  std::uint64_t matching = 0;
};

}  // namespace hmann
