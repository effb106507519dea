#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/search_params.h"
#include "hmann/tune.h"
#include "index/search/timed_runs.h"
#include "index/tune/counting.h"
#include "index/tune/equation31.h"

namespace hmann {

/// The runs that a tuner can request of an index.
struct TuningRuns {
  /// Counts the first `queries` learning queries at a setting (CountingRuns).
  std::function<absl::StatusOr<Counted>(const ResolvedParams& params, std::uint64_t queries)> count;
  /// Times queries first, first + 1, ... one at a time (TimedRuns).
  std::function<absl::StatusOr<Timed>(const ResolvedParams& params, std::uint64_t first,
                                      std::uint64_t queries)>
      time;
};

struct TunerOptions {
  std::uint32_t k = 10;
  std::vector<double> recalls;  ///< recalls to find the fastest setting for; in (0, 1)
  std::uint64_t queries = 0;    ///< of the learning set; at least 1
  SearchContext context{};      ///< of the index where it is tuned
  std::uint32_t most_query_threads = 1;
  std::function<void()> progress{};  ///< called before each run; may be empty
};

struct Tuned {
  std::vector<TunedSetting> front{};      ///< no other is better in both; mean_us ascending
  std::vector<Comparison> comparisons{};  ///< by recall, in the order of TunerOptions
  Equation31 equation;
  /// The setting near the default recall, timed against itself in the same rounds: time
  /// over time. Its difference from 1 is the noise of the machine.
  double same_again = 1;
};

/// Finds the fastest setting for each recall, and a front for other recalls.
///
/// For each recall, counting runs bring every candidate (ladder.h) to that recall.
/// Equation 3.1, with constants from a few timed settings, drops those that it predicts
/// to be slow. The rest are timed in alternating rounds; half of them drop out after
/// each, and the rounds grow. Settings next to the winner are tried until none is faster.
/// Then winners are brought to their recall on all learning queries, others to recalls
/// between, and all of these are timed side by side. Errors: INVALID_ARGUMENT (no
/// queries, a recall out of range), and those of the runs.
absl::StatusOr<Tuned> TuneParams(const TuningRuns& runs, const TunerOptions& options);

}  // namespace hmann
