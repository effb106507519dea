#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// Queries that a thread should have under way at once.
struct InFlight {
  std::uint32_t queries = 1;
  double gain = 1;  ///< queries a second beside one at a time
};

/// Runs queries of `learning` in the calling thread with 1, 2, 4, ... of them in flight,
/// in alternating rounds, and takes the fewest that come within 2 % of the most queries a
/// second. Vectors left out in turn find themselves here: only time is looked at.
/// `cancelled`: of TuneOptions. Errors: those of Searcher::SearchMany, CANCELLED.
absl::StatusOr<InFlight> MeasureInFlight(const std::shared_ptr<const Index>& index,
                                         const LearningSet& learning, const Dials& dials,
                                         const std::atomic<bool>* cancelled);

}  // namespace hmann
