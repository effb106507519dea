#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "index/base/prefetch.h"
#include "index/base/thread_pool.h"
#include "index/graph/layer_search.h"
#include "index/search/access.h"
#include "index/search/best_first_walk.h"
#include "index/search/drivers.h"
#include "index/search/gated_walk.h"
#include "index/search/options.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Runs Algorithms 2 and 3 for one query at a time on an index whose L0 is addressable, with scratch that is kept between queries. One per
/// thread.
class QueryRunner {
 public:
  /// `index` must outlive the runner.
  explicit QueryRunner(const PlacedIndex& index) : index_(index), query_(index.kernels.row_bytes), plain_access_(index) {}

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
    std::unique_ptr<ManagedAccess> access;  ///< of every part but the first
  };
  template <typename WalkCounterType>
  struct State {
    WalkCounterType counters;
    BestFirstWalk<WalkCounterType> pool;
    GatedWalk<WalkCounterType> gated;
    std::vector<Flight<WalkCounterType>> flights;  ///< one per query thread
  };

  template <typename WalkCounterType>
  absl::Status RunWithAccess(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state,
                             std::vector<Neighbour>* out);
  template <typename WalkCounterType, typename Access>
  absl::Status Run(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state, Access& access);
  template <typename WalkCounterType, typename Access>
  absl::Status RunBeams(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state, Access& access);
  /// The beams of candidates [first, last) of scratch_.beam, a flight at a time.
  template <typename WalkCounterType, typename Access>
  absl::Status RunFlights(std::size_t first, std::size_t last, const SearchOptions& options, StopCheck& stop,
                          Flight<WalkCounterType>& flight, Access& access) const;
  template <typename Access>
  void Answer(std::uint32_t k, Access& access, std::vector<Neighbour>* out);

  const PlacedIndex& index_;
  std::vector<std::byte> query_;  ///< in stored form
  LayerScratch scratch_;
  RecordPointers records_;
  PlainAccess plain_access_;
  std::unique_ptr<ManagedAccess> managed_access_;  ///< made when a query asks for something that plain memory does not do
  std::unique_ptr<ThreadPool> threads_;            ///< made at the first query with more than one thread
  State<NullWalkCounters> plain_;
  State<WalkCounters> counting_;
  VisitedSet read_;
};

}  // namespace hmann
