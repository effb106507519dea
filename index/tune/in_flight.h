#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// The number of queries that a thread should have in flight.
struct InFlight {
  std::uint32_t queries = 1;
  double gain = 1;  ///< queries per second relative to one at a time
};

/// Runs queries of `learning` in the calling thread with 1, 2, 4, ... of them in flight,
/// in alternating rounds. Takes the lowest number that comes within 2 % of the most
/// queries per second. Vectors left out in turn find themselves here, because only time
/// matters. `cancelled`: of TuneOptions. Errors: those of Searcher::SearchMany,
/// CANCELLED.
absl::StatusOr<InFlight> MeasureInFlight(const std::shared_ptr<const Index>& index,
                                         const LearningSet& learning, const ResolvedParams& params,
                                         const std::atomic<bool>* cancelled);

}  // namespace hmann
