#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/search_options.h"
#include "hmann/tune.h"
#include "index/tune/counting.h"
#include "index/tune/equation31.h"
#include "index/tune/timed_runs.h"

namespace hmann {

/// What a tuner can ask of an index.
struct TuningRuns {
  /// The first `queries` learning queries at a setting (CountingRuns).
  std::function<absl::StatusOr<Counted>(const Dials& dials, std::uint64_t queries)> count;
  /// Queries first, first + 1, ... one at a time (TimedRuns).
  std::function<absl::StatusOr<Timed>(const Dials& dials, std::uint64_t first,
                                      std::uint64_t queries)>
      time;
};

struct TunerOptions {
  std::uint32_t k = 10;
  std::vector<double> recalls;  ///< contested each; in (0, 1)
  std::uint64_t queries = 0;    ///< of the learning set; at least 1
  SearchContext context{};      ///< of the index where it is tuned
  std::uint32_t most_query_threads = 1;
  std::function<void()> progress{};  ///< called before each run; may be empty
};

struct Tuned {
  std::vector<TunedSetting> front{};  ///< no other beats them in both; mean_us ascending
  std::vector<Contest> contests{};    ///< by recall, in the order of TunerOptions
  Equation31 equation;
  /// The setting near the default recall beside itself, in the same rounds: time over
  /// time. How far it is from 1 is what the machine adds.
  double same_again = 1;
};

/// Finds the fastest way of searching for each recall, and a front that answers others.
///
/// For each recall every way (ladder.h) is brought to it by counting runs; Equation 3.1,
/// with constants from a few timed settings, drops those that it says are slow; the rest
/// are timed in alternating rounds, half of them go after each, and the rounds grow; ways
/// next to the winner are tried until none is faster. Winners are then brought to their
/// recall on all learning queries, others to recalls between, and all of these are timed
/// side by side. Errors: INVALID_ARGUMENT (no queries, a recall out of range), and those
/// of the runs.
absl::StatusOr<Tuned> TuneDials(const TuningRuns& runs, const TunerOptions& options);

}  // namespace hmann
