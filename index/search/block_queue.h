#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "hmann/block_reader.h"

namespace hmann {

/// Reads that wait for a place in the device's queue. Reads that a traversal waits for
/// precede reads ahead; each class is in order of arrival. Reads ahead never take more
/// than half of the places.
class BlockQueue {
 public:
  explicit BlockQueue(BlockReader* reader) : reader_(reader) {}

  void Push(const BlockRead& read, bool ahead) { waiting_[ahead].push_back(read); }

  /// Turns a waiting read ahead into a demand read. False: it is not waiting any more, so
  /// it is in flight.
  bool MakeDemand(std::uint64_t tag) {
    std::vector<BlockRead>& ahead = waiting_[true];
    const auto found = std::ranges::find(ahead, tag, &BlockRead::tag);
    if (found == ahead.end()) return false;
    waiting_[false].push_back(*found);
    ahead.erase(found);
    return true;
  }

  /// Drops the reads for which `drop(tag)` is true. Their frames belong to the caller
  /// again.
  template <typename Drop>
  void Remove(const Drop& drop) {
    for (std::vector<BlockRead>& reads : waiting_)
      std::erase_if(reads, [&](const BlockRead& read) { return drop(read.tag); });
  }

  /// Starts as many reads as the device's queue has room for. Errors: those of
  /// BlockReader::Submit; no read is lost then.
  absl::Status Pump() {
    const std::uint32_t depth = reader_->options().depth;
    const std::size_t room = depth - std::min(depth, reader_->InFlight()),
                      half = std::max(1u, depth / 2),
                      demand = std::min(waiting_[false].size(), room),
                      ahead = std::min({waiting_[true].size(), room - demand,
                                        half - std::min(half, ahead_in_flight_.size())});
    if (demand + ahead == 0) return absl::OkStatus();
    batch_.assign(waiting_[false].begin(), waiting_[false].begin() + demand);
    batch_.insert(batch_.end(), waiting_[true].begin(), waiting_[true].begin() + ahead);
    const absl::StatusOr<std::size_t> taken = reader_->Submit(batch_);
    const std::size_t gone = taken.ok() ? *taken : 0, of_demand = std::min(gone, demand);
    for (std::size_t i = demand; i < gone; ++i) ahead_in_flight_.push_back(batch_[i].tag);
    waiting_[false].erase(waiting_[false].begin(), waiting_[false].begin() + of_demand);
    waiting_[true].erase(waiting_[true].begin(), waiting_[true].begin() + (gone - of_demand));
    return taken.status();
  }

  /// The read is done, so its place is free.
  void NoteDone(std::uint64_t tag) { std::erase(ahead_in_flight_, tag); }
  bool empty() const { return waiting_[false].empty() && waiting_[true].empty(); }

 private:
  BlockReader* reader_;
  std::vector<BlockRead> waiting_[2];           ///< [whether ahead], first come first
  std::vector<BlockRead> batch_;                ///< scratch
  std::vector<std::uint64_t> ahead_in_flight_;  ///< tags
};

}  // namespace hmann
