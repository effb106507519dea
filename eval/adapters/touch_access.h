/// How a search reports each byte of the index that it prefetches or uses: to nothing, to
/// an emulated slow tier, or to a model.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eval/models/placement.h"
#include "eval/models/touch_log.h"

namespace hmann::eval {

/// Visits the lines that hold [address, address + bytes), up to 64 at a time: `each(first
/// byte of the piece, number of lines)`.
template <typename Each>
void ForLines(const void* address, std::size_t bytes, Each each) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t line = begin / 64;
  const std::uintptr_t end = (begin + bytes + 63) / 64;
  while (line < end) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uintptr_t>(end - line, 64));
    each(reinterpret_cast<const std::byte*>(line * 64), count);
    line += count;
  }
}

/// No memory is slow.
struct NoAccess {
  void NewQuery() {}
  void Fetch(Part, std::uint32_t, const void*, std::size_t) {}
  void Use(Part, std::uint32_t, const void*, std::size_t) {}
};

/// All memory is slow. `Lines`: EmulatedLines.
template <typename Lines>
struct SlowAccess {
  Lines* lines;

  void NewQuery() { lines->Clear(); }
  void Fetch(Part, std::uint32_t, const void* address, std::size_t bytes) {
    lines->Fetch(static_cast<const std::byte*>(address), bytes);
  }
  void Use(Part, std::uint32_t, const void* address, std::size_t bytes) {
    lines->Use(static_cast<const std::byte*>(address), bytes);
  }
};

/// The log says what is slow. The search must be the one that wrote the log.
template <typename Lines>
struct ReplayAccess {
  Lines* lines;
  TouchLog::Reader log;

  void NewQuery() { lines->Clear(); }
  void Fetch(Part, std::uint32_t, const void* address, std::size_t bytes) {
    ForLines(address, bytes, [this](const std::byte* piece, std::uint32_t count) {
      ForRuns(piece, log.Take(count),
              [this](const std::byte* run, std::size_t length) { lines->Fetch(run, length); });
    });
  }
  void Use(Part, std::uint32_t, const void* address, std::size_t bytes) {
    ForLines(address, bytes, [this](const std::byte* piece, std::uint32_t count) {
      const std::uint64_t slow = log.Take(count);
      if (slow == 0) return;
      // All are in flight before the first wait.
      ForRuns(piece, slow,
              [this](const std::byte* run, std::size_t length) { lines->Fetch(run, length); });
      ForRuns(piece, slow,
              [this](const std::byte* run, std::size_t length) { lines->Use(run, length); });
    });
  }

 private:
  /// Groups adjacent lines whose bits are set.
  template <typename Each>
  static void ForRuns(const std::byte* piece, std::uint64_t slow, Each each) {
    std::uint32_t at = 0;
    while (slow != 0) {
      const auto gap = static_cast<std::uint32_t>(std::countr_zero(slow));
      slow >>= gap;
      at += gap;
      const auto run = static_cast<std::uint32_t>(std::countr_one(slow));
      each(piece + std::size_t{at} * 64, std::size_t{run} * 64);
      slow = run == 64 ? 0 : slow >> run;
      at += run;
    }
  }
};

/// Memory of the index, with lines numbered from `first_line`.
struct IndexMemory {
  std::span<const std::byte> bytes;  ///< starts on a line
  std::uint64_t first_line = 0;
};

/// Queries a model, writes the log, and counts.
class RecordingAccess {
 public:
  /// `log` may be null; the model is still queried. The other arguments must outlive this
  /// object. `nodes`: of the index.
  RecordingAccess(PlacementModel* model, std::span<const IndexMemory> memory, std::uint32_t nodes,
                  TouchLog* log)
      : model_(model), memory_(memory.begin(), memory.end()), log_(log), read_by_(nodes, 0) {
    std::uint64_t lines = 0;
    for (const IndexMemory& part : memory_)
      lines = std::max(lines, part.first_line + part.bytes.size() / 64 + 1);
    seen_by_.resize(lines, 0);
  }

  void NewQuery() {
    ++query_;
    model_->NewQuery();
  }
  void Fetch(Part part, std::uint32_t node, const void* address, std::size_t bytes) {
    Touch(part, node, address, bytes);
  }
  void Use(Part part, std::uint32_t node, const void* address, std::size_t bytes) {
    Touch(part, node, address, bytes);
  }

  std::uint64_t lines() const { return lines_; }            ///< distinct lines per query, summed
  std::uint64_t slow_lines() const { return slow_lines_; }  ///< those from slow memory
  /// Nodes with any byte from slow memory, each counted once per query.
  std::uint64_t node_reads() const { return slow_reads_; }

 private:
  void Touch(Part part, std::uint32_t node, const void* address, std::size_t bytes) {
    ForLines(address, bytes, [&](const std::byte* piece, std::uint32_t count) {
      std::uint64_t bits = 0;
      const std::uint64_t first = LineOf(piece);
      for (std::uint32_t i = 0; i < count; ++i) {
        const bool slow = model_->Slow(part, node, first + i);
        bits |= static_cast<std::uint64_t>(slow) << i;
        Count(first + i, node, slow);
      }
      if (log_ != nullptr) log_->Append(bits, count);
    });
  }
  void Count(std::uint64_t line, std::uint32_t node, bool slow) {
    std::uint32_t& seen = seen_by_[line];
    // A line may hold parts of two kinds, only one of them slow. It is counted once, and
    // as slow if either is.
    const bool is_new = seen >> 1 != query_, newly_slow = slow && (is_new || (seen & 1) == 0);
    lines_ += is_new ? 1 : 0;
    slow_lines_ += newly_slow ? 1 : 0;
    if (is_new || newly_slow) seen = query_ << 1 | (slow ? 1 : 0);
    if (slow && read_by_[node] != query_) {
      read_by_[node] = query_;
      ++slow_reads_;
    }
  }
  std::uint64_t LineOf(const std::byte* line) const {
    for (const IndexMemory& part : memory_) {
      // The piece begins with its first line, so it may pass the end by less than a line.
      if (line >= part.bytes.data() && line < part.bytes.data() + part.bytes.size()) {
        return part.first_line + static_cast<std::uint64_t>(line - part.bytes.data()) / 64;
      }
    }
    return 0;
  }

  PlacementModel* model_;
  std::vector<IndexMemory> memory_;
  TouchLog* log_;
  std::vector<std::uint32_t> seen_by_, read_by_;
  std::uint32_t query_ = 0;
  std::uint64_t lines_ = 0, slow_lines_ = 0, slow_reads_ = 0;
};

}  // namespace hmann::eval
