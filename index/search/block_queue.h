#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "hmann/block_reader.h"

namespace hmann {

/// Reads that wait for a place in the device's queue, most urgent first. Reads that a
/// traversal waits for precede reads ahead. Each class is ordered by the latest safe
/// time: the time of use less the duration of a read (G10's order: Zhang et al., MICRO
/// 2023). Reads ahead never take more than half of the places.
class BlockQueue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BlockQueue(BlockReader* reader) : reader_(reader) {}

  struct Read {
    BlockRead read;
    bool ahead = false;
    Clock::time_point due;  ///< latest safe time
  };

  void Push(const Read& read) {
    waiting_.push_back(read);
    std::push_heap(waiting_.begin(), waiting_.end(), IsLater);
  }

  /// Turns a waiting read ahead into a demand read. False: it is not waiting any more, so
  /// it is in flight.
  bool MakeDemand(std::uint64_t tag, Clock::time_point now) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [tag](const Read& read) { return read.read.tag == tag; });
    if (found == waiting_.end()) return false;
    found->ahead = false;
    found->due = now;
    std::make_heap(waiting_.begin(), waiting_.end(), IsLater);
    return true;
  }

  /// Drops the reads for which `drop(tag)` is true. Their frames belong to the caller
  /// again.
  template <typename Drop>
  void Remove(const Drop& drop) {
    if (std::erase_if(waiting_, [&](const Read& read) { return drop(read.read.tag); }) > 0) {
      std::make_heap(waiting_.begin(), waiting_.end(), IsLater);
    }
  }

  /// Starts as many reads as the device's queue has room for. Errors: those of
  /// BlockReader::Submit; no read is lost then.
  absl::Status Pump() {
    const std::uint32_t depth = reader_->options().depth;
    batch_.clear();
    while (!waiting_.empty() && reader_->InFlight() + batch_.size() < depth) {
      if (waiting_.front().ahead && ahead_in_flight_.size() >= std::max(1u, depth / 2)) break;
      std::pop_heap(waiting_.begin(), waiting_.end(), IsLater);
      if (waiting_.back().ahead) ahead_in_flight_.push_back(waiting_.back().read.tag);
      batch_.push_back(waiting_.back());
      reads_.push_back(batch_.back().read);
      waiting_.pop_back();
    }
    const absl::StatusOr<std::size_t> taken =
        reads_.empty() ? absl::StatusOr<std::size_t>(0) : reader_->Submit(reads_);
    for (std::size_t i = taken.ok() ? *taken : 0; i < batch_.size(); ++i) {
      NoteDone(batch_[i].read.tag);
      Push(batch_[i]);
    }
    reads_.clear();
    return taken.status();
  }

  /// The read is done, so its place is free.
  void NoteDone(std::uint64_t tag) { std::erase(ahead_in_flight_, tag); }
  bool empty() const { return waiting_.empty(); }

 private:
  static bool IsLater(const Read& a, const Read& b) {
    return a.ahead != b.ahead ? a.ahead : a.due > b.due;
  }

  BlockReader* reader_;
  std::vector<Read> waiting_;  ///< a heap; the most urgent first
  std::vector<Read> batch_;
  std::vector<BlockRead> reads_;
  std::vector<std::uint64_t> ahead_in_flight_;  ///< tags
};

}  // namespace hmann
