#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "index/dials/answer.h"
#include "index/dials/counters.h"
#include "index/dials/dials.h"
#include "index/search/block_query.h"
#include "index/search/block_queue.h"
#include "index/search/placed_index.h"
#include "index/tiers/block_reader.h"

namespace hmann {

/// Runs Algorithms 2 and 3 on an index whose L0 lies on a block tier: the ring driver. Several queries are in flight, so that the thread
/// computes for one while the device reads for the others. One per thread.
class BlockRunner {
 public:
  /// `index` must outlive the runner.
  explicit BlockRunner(const PlacedIndex& index) : index_(index) {}

  /// See hmann::Searcher::SearchMany.
  absl::Status SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const Dials& dials, std::uint32_t in_flight,
                          const std::function<void(std::size_t, const absl::Status&, Answer&)>& done, Counters* counters,
                          const SearchLimits& limits);

 private:
  /// A device that answers nothing for this long is called stalled.
  static constexpr std::chrono::seconds kStallLimit{30};

  absl::Status Prepare(std::uint32_t in_flight, const Dials& dials);
  absl::Status WaitForReads(const SearchLimits& limits, std::chrono::steady_clock::time_point* last_progress);

  const PlacedIndex& index_;
  std::unique_ptr<BlockReader> reader_;
  std::unique_ptr<BlockQueue> queue_;
  std::vector<std::unique_ptr<BlockQuery>> slots_;
  std::vector<BlockDone> done_;
};

}  // namespace hmann
