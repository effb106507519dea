#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "index/base/prefetch.h"
#include "index/base/thread_pool.h"
#include "index/graph/layer_search.h"
#include "index/search/best_first_walk.h"
#include "index/search/drivers.h"
#include "index/search/options.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Runs Algorithms 2 and 3 for one query at a time on a placed index, with scratch that is kept between queries. One per thread.
class QueryRunner {
 public:
  /// `index` must outlive the runner.
  explicit QueryRunner(const PlacedIndex& index) : index_(index), query_(index.kernels.row_bytes) {}

  /// See hmann::Searcher::Search.
  absl::Status Search(const void* query, const SearchOptions& options, std::vector<Neighbour>* out, Counters* counters,
                      const SearchLimits& limits);

 private:
  /// One query thread's part of `--walk beams`: the beams that are in flight, each with the scratch of its own that makes it independent
  /// of the others, and what all beams of the thread have found and counted.
  template <typename WalkCounterType>
  struct alignas(kCacheLineBytes) Flight {
    LayerScratch scratch[kWalksInFlight];
    BestFirstWalk<WalkCounterType> walks[kWalksInFlight];
    RecordPointers records;
    Beam results;  ///< the nearest k of what the beams scored
    WalkCounterType counters;
    absl::Status status;
  };
  template <typename WalkCounterType>
  struct State {
    WalkCounterType counters;
    BestFirstWalk<WalkCounterType> pool;
    std::vector<Flight<WalkCounterType>> flights;  ///< one per query thread
  };

  template <typename WalkCounterType>
  absl::Status Run(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state);
  /// Algorithm 2 down to L1: scratch_.beam holds what L1 found, the nearest ef_l1 of it being W.
  template <typename WalkCounterType>
  absl::Status SearchUpperLayers(const SearchOptions& options, StopCheck& stop, State<WalkCounterType>& state);
  template <typename WalkCounterType>
  absl::Status RunBeams(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state);
  /// The beams of candidates [first, last) of scratch_.beam, a flight at a time.
  template <typename WalkCounterType>
  absl::Status RunFlights(std::size_t first, std::size_t last, const SearchOptions& options, StopCheck& stop,
                          Flight<WalkCounterType>& flight) const;
  void Answer(std::uint32_t k, std::vector<Neighbour>* out) const;

  const PlacedIndex& index_;
  std::vector<std::byte> query_;  ///< in stored form
  LayerScratch scratch_;
  RecordPointers records_;
  std::unique_ptr<ThreadPool> threads_;  ///< made at the first query with more than one thread
  State<NullWalkCounters> plain_;
  State<WalkCounters> counting_;
  VisitedSet read_;
};

}  // namespace hmann
