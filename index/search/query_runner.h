#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
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
  /// One beam of `--walk beams`, with the scratch of its own that makes it independent of the others.
  template <typename WalkCounterType>
  struct BeamSlot {
    LayerScratch scratch;
    WalkCounterType counters;
  };
  template <typename WalkCounterType>
  struct State {
    WalkCounterType counters;
    BestFirstWalk<WalkCounterType> pool;
    std::vector<BeamSlot<WalkCounterType>> slots;
    std::vector<BestFirstWalk<WalkCounterType>> beams;
  };

  template <typename WalkCounterType>
  absl::Status Run(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state);
  /// Algorithm 2 down to L1: scratch_.beam holds what L1 found, the nearest ef_l1 of it being W.
  template <typename WalkCounterType>
  absl::Status SearchUpperLayers(const SearchOptions& options, StopCheck& stop, State<WalkCounterType>& state);
  template <typename WalkCounterType>
  absl::Status RunBeams(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state);
  void Answer(std::uint32_t k, std::vector<Neighbour>* out) const;

  const PlacedIndex& index_;
  std::vector<std::byte> query_;  ///< in stored form
  LayerScratch scratch_;
  std::vector<RecordPointers> records_{1};  ///< one per query thread
  std::vector<Beam> results_;               ///< likewise: the nearest k of what the thread's beams scored
  std::vector<absl::Status> status_;        ///< likewise
  std::unique_ptr<ThreadPool> threads_;     ///< made at the first query with more than one thread
  State<NullWalkCounters> plain_;
  State<WalkCounters> counting_;
  VisitedSet read_;
};

}  // namespace hmann
