#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/base/thread_pool.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// The recall of some queries at a setting, and the work they took. No clock is involved,
/// so the result is the same on any machine, however busy.
struct Counted {
  std::uint64_t queries = 0;
  double recall = 0;            ///< mean
  double recall_deviation = 0;  ///< standard deviation over queries
  double recall_p05 = 0;        ///< 5th percentile over queries
  Counters counters{};          ///< sum over the queries

  double Mean(std::uint64_t Counters::*counter) const {
    return static_cast<double>(counters.*counter) / static_cast<double>(queries);
  }
  /// Distances and estimates a query.
  double Work() const {
    return Mean(&Counters::distances_fast) + Mean(&Counters::distances_slow) +
           Mean(&Counters::estimates);
  }
};

/// Mean recall less z standard errors, over queries. One query that finds half as much is
/// added, so that a few perfect answers prove little.
double RecallLowerBound(const Counted& counted, double z);

/// Searches for learning queries on all threads.
class CountingRuns {
 public:
  /// `learning` must outlive it. `cancelled`: not owned, may be nullptr. `threads`: 0:
  /// the usable cores.
  CountingRuns(const std::shared_ptr<const Index>& index, const LearningSet& learning, int threads,
               const std::atomic<bool>* cancelled);

  /// The number of queries in the learning set.
  std::uint64_t queries() const { return learning_.n(); }
  /// Runs the first `queries` of the learning set. Errors: those of Searcher::Search,
  /// CANCELLED.
  absl::StatusOr<Counted> Run(const ResolvedParams& params, std::uint64_t queries) {
    return Run(params, std::min(queries, learning_.n()), {});
  }
  /// Runs the queries at these places in the learning set; likewise.
  absl::StatusOr<Counted> Run(const ResolvedParams& params, std::span<const std::uint64_t> places) {
    return Run(params, places.size(), places);
  }

  /// Answers the first `count` rows of the learning set, whether or not their neighbors
  /// are known, and hands each answer to `take`, on all threads. Returns the counters.
  /// Errors: as Run.
  absl::StatusOr<Counters> Answers(const ResolvedParams& params, std::uint64_t count,
                                   const std::function<void(std::size_t i, const Answer&)>& take) {
    return Answers(params, count, {}, take);
  }

 private:
  /// `places`: empty: the first `count`.
  absl::StatusOr<Counted> Run(const ResolvedParams& params, std::uint64_t count,
                              std::span<const std::uint64_t> places);
  absl::StatusOr<Counters> Answers(const ResolvedParams& params, std::uint64_t count,
                                   std::span<const std::uint64_t> places,
                                   const std::function<void(std::size_t i, const Answer&)>& take);

  const LearningSet& learning_;
  const std::atomic<bool>* cancelled_;
  ThreadPool pool_;
  std::vector<Searcher> searchers_;
};

}  // namespace hmann
