#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "index/base/prefetch.h"
#include "index/base/thread_pool.h"
#include "index/dials/answer.h"
#include "index/dials/counters.h"
#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/access.h"
#include "index/search/best_first_walk.h"
#include "index/search/drivers.h"
#include "index/search/layered_access.h"
#include "index/search/placed_index.h"
#include "index/search/query_flight.h"

namespace hmann {

/// Runs Algorithms 2 and 3 on an index whose L0 is addressable, with scratch that is kept between queries. One per thread.
class QueryRunner {
 public:
  /// `index` must outlive the runner.
  explicit QueryRunner(const PlacedIndex& index) : index_(index) {}

  /// See hmann::Searcher::Search.
  absl::Status Search(const void* query, const Dials& dials, Answer* out, Counters* counters, const SearchLimits& limits);

  /// See hmann::Searcher::SearchMany.
  absl::Status SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const Dials& dials, std::uint32_t in_flight,
                          const std::function<void(std::size_t, const absl::Status&, Answer&)>& done, Counters* counters,
                          const SearchLimits& limits);

 private:
  /// A query on its way, with its own way to the records.
  template <typename Access>
  struct Seat {
    explicit Seat(const PlacedIndex& index) : flight(index), access(index) {}
    QueryFlight<Access> flight;
    Access access;
    std::size_t which = 0;  ///< number of its query
    StopCheck::TimePoint cut;
  };
  /// One query thread's part of `--walk beams`: the beams that are in flight, each with the scratch of its own that makes it independent
  /// of the others, and what all beams of the thread have found and counted.
  struct alignas(kCacheLineBytes) BeamsPart {
    LayerScratch scratch[kWalksInFlight];
    BestFirstWalk walks[kWalksInFlight];
    RecordPointers records;
    Beam results;  ///< the nearest k of what the beams scored
    WalkCounters counters;
    absl::Status status;
    std::unique_ptr<LayeredAccess> access;  ///< of every part but the first
  };
  template <typename Access>
  struct State {
    std::vector<std::unique_ptr<Seat<Access>>> seats;
    std::vector<BeamsPart> parts;  ///< one per query thread
    Answer answer;
  };

  /// Calls run(state) with the state for what the dials ask of the tier.
  template <typename Run>
  absl::Status WithState(const Dials& dials, const Run& run);
  template <typename Access, typename QueryOf, typename Done>
  absl::Status RunMany(State<Access>& state, std::size_t n, const QueryOf& query, const Dials& dials, std::uint32_t in_flight,
                       const Done& done, Counters* counters, const SearchLimits& limits);
  template <typename Access>
  absl::Status RunBeams(const Dials& dials, const SearchLimits& limits, State<Access>& state, Seat<Access>& seat);
  /// Cuts the flights short whose budget is spent.
  template <typename Access>
  static void CutShort(State<Access>& state, std::size_t seats);
  /// The beams of candidates [first, last) of what L1 found for `flight`, kWalksInFlight at a time; once the budget is spent, what is left
  /// of the candidates themselves.
  template <typename Access>
  absl::Status RunPart(QueryFlight<Access>& flight, std::size_t first, std::size_t last, const Dials& dials, StopCheck& stop,
                       BeamsPart& part, Access& access) const;

  const PlacedIndex& index_;
  std::unique_ptr<ThreadPool> threads_;  ///< made at the first query with more than one thread
  State<PlainAccess> plain_;
  State<LayeredAccess> managed_;
  VisitedSet read_;
};

}  // namespace hmann
